## From the registers of the last stage to a target, the same way.
##
##   write(plan, result, planes, twisted, given, tag, number)     given: arguments of put; number: l of the roots, if not the lane's
<%namespace name="cyclic" file="/fft/_group_cyclic.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%namespace name="split" file="/fft/_group_split.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%def name="write(plan, result, planes, twisted, given, tag, number)">
<% last, half = plan.final, result.form == "half" %>\
% if plan.staged_target:
<% count, layout, live = plan.rows(result.form), plan.natural, f"left({planes} * s, lanes_here)" %>
% if len(plan.stages) > 1 or plan.staged_source:
    ${plan.barrier};
% endif
% if plan.cyclic:
${cyclic.wanted(plan)}\
% else:
${local.write(plan, last, layout, ("re", "im"))}\
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
<% total, at_once = f"{count} * {plan.slots}", plan.at_once(result.form) %>\
    for (uint begin = id; begin < ${total}; begin += ${at_once * plan.group}) {
        pair_t v[${at_once}]${f", mirror[{at_once}]" if half else ""};
        #pragma unroll
        for (uint u = 0; u < ${at_once}; u++) {
            const uint e = min(begin + u * ${plan.group}, ${total} - 1u);
            const uint ${plan.walk(plan.target_across, count)};
            const uint at = ${layout.place("i", "s")};
            v[u] = (pair_t)(numbers[at], numbers[at + ${layout.size}]);
% if half:
            const uint m = ${layout.place(f"(i ? {plan.n_in_text} - i : 0)", "s")};
            mirror[u] = (pair_t)(numbers[m], numbers[m + ${layout.size}]);
% endif
        }
        #pragma unroll
        for (uint u = 0; u < ${at_once}; u++) {
            const uint e = begin + u * ${plan.group};
            if (e >= ${total})
                break;
            const uint ${plan.walk(plan.target_across, count)};
            const long lane = lane0 + ${planes} * s;
% if twisted:
% for p in range(planes):
            const pair_t root${p} = with_sign(root_of((ulong)i * ${number or f"(ulong)min(lane + {p}, lanes - 1)"}, coarse, fine, shift), sign);
% endfor
% endif
            put${tag}(${rows.place("y", result, "i", "lane")}, i, lane, ${live}, sign, scale${given}, v[u]${", mirror[u]" if half else ""}${"".join(f", root{p}" for p in range(planes)) if twisted else ""});
        }
    }
% elif result.form == "split":
${split.write(plan, result, given, tag)}\
% else:
% if twisted:
${stages.twist_all(plan, last, number or f"(ulong)min(lane0 + {planes} * {last.slot}, lanes - 1)")}\
% endif
<% lane, live = f"lane0 + {planes} * {last.slot}", f"left({planes} * {last.slot}, lanes_here)" %>\
    __global real_t *y_at = ${rows.place("y", result, last.item, lane)};
% if half:
% for r in range(plan.n // 2 + 1):
<% mirror = -r % plan.n %>\
    put${tag}(${rows.place("y_at", result, r, 0)}, ${r}, ${lane}, ${live}, sign, scale${given}, (pair_t)(re[${r}], im[${r}]), (pair_t)(re[${mirror}], im[${mirror}])${"".join(f", root{p}" for p in range(planes)) if twisted else ""});
% endfor
% else:
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
% for r in range(plan.wanted):
<% further = b * plan.items + r * last.count %>\
        ${f"if ({last.item} + {further} < n) " if plan.chirp else ""}put${tag}(${rows.place("y_at", result, further, 0)}, ${last.item} + ${further}, ${lane}, ${live}, sign, scale${given}, (pair_t)(re[${b * last.radix + r}], im[${b * last.radix + r}]));
% endfor
    }
% endfor
% endif
% endif
</%def>
