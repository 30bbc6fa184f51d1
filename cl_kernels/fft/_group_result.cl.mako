## From the registers of the last stage to a target, the same way.
##
##   write(plan, result, planes, twisted, given, tag)     given: arguments of put
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%def name="write(plan, result, planes, twisted, given, tag)">
<% last, half = plan.stages[-1], result.form == "half" %>\
% if plan.staged_target:
<% count, layout, live = plan.rows(result.form), plan.natural, f"left({planes} * s, lanes_here)" %>
% if len(plan.stages) > 1 or plan.staged_source:
    ${plan.barrier};
% endif
${local.write(plan, last, layout, ("re", "im"))}\
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = id; e < ${count} * ${plan.slots}; e += ${plan.group}) {
        const uint ${plan.walk(plan.target_across, count)};
        const uint at = ${layout.place("i", "s")};
        const pair_t v = (pair_t)(numbers[at], numbers[at + ${layout.size}]);
        const long lane = lane0 + ${planes} * s;
% if half:
        const uint m = ${layout.place(f"(i ? {plan.n_in_text} - i : 0)", "s")};
        const pair_t mirror = (pair_t)(numbers[m], numbers[m + ${layout.size}]);
% endif
% if twisted:
% for p in range(planes):
        const pair_t root${p} = with_sign(root_of((ulong)i * (ulong)min(lane + ${p}, lanes - 1), coarse, fine, shift), sign);
% endfor
% endif
        put${tag}(${rows.place("y", result, "i", "lane")}, i, lane, ${live}, sign, scale${given}, v${", mirror" if half else ""}${"".join(f", root{p}" for p in range(planes)) if twisted else ""});
    }
% else:
% if twisted:
${stages.twist_all(plan, last, planes)}\
% endif
<% lane, live = f"lane0 + {planes} * {last.slot}", f"left({planes} * {last.slot}, lanes_here)" %>\
    __global real_t *y_at = ${rows.place("y", result, last.item, lane)};
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
% for r in range(plan.wanted):
<% further = b * plan.items + r * last.count %>\
        ${f"if ({last.item} + {further} < n) " if plan.chirp else ""}put${tag}(${rows.place("y_at", result, further, 0)}, ${last.item} + ${further}, ${lane}, ${live}, sign, scale${given}, (pair_t)(re[${b * last.radix + r}], im[${b * last.radix + r}]));
% endfor
    }
% endfor
% endif
</%def>
