## From the registers of the last stage to a target, the same way.
##
##   write(plan, result, planes, number_of, brought, given, tag)    given: arguments of put; number_of(slot, plane): l of
##                                                                  the roots, if there are such; brought: see _group_stages
<%namespace name="cyclic" file="/fft/_group_cyclic.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%namespace name="split" file="/fft/_group_split.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%def name="write(plan, result, planes, number_of, brought, given, tag)">
<% last, half = plan.final, result.form == "half" %>\
% if plan.staged_target:
% if len(plan.stages) > 1 or plan.staged_source:
    ${plan.barrier};
% endif
% if plan.cyclic:
${cyclic.wanted(plan)}\
% else:
${local.write(plan, last, plan.natural, ("re", "im"))}\
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
    __global real_t *y_at = ${rows.place("y", result, 0, "lane0")};
% for all_here in (True, False)[: planes * plan.slots]:
    ${f"if (lanes_here == {planes * plan.slots})" if all_here else "else"} {
${staged(plan, result, planes, number_of, given, tag, all_here)}\
    }
% endfor
% elif result.form == "split":
${split.write(plan, result, given, tag)}\
% else:
% if number_of:
${stages.twist_all(plan, number_of, brought)}\
% endif
<% lane, live = f"lane0 + {planes} * {last.slot}", f"left({planes} * {last.slot}, lanes_here)" %>\
    __global real_t *y_at = ${rows.place("y", result, last.item, lane)};
% if half:
% for r in range(plan.n // 2 + 1):
<% mirror = -r % plan.n %>\
    put${tag}(${rows.place("y_at", result, r, 0)}, ${r}, ${lane}, ${live}, sign, scale${given}, (pair_t)(re[${r}], im[${r}]), (pair_t)(re[${mirror}], im[${mirror}])${"".join(f", root{p}" for p in range(planes)) if number_of else ""});
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

<%def name="staged(plan, result, planes, number_of, given, tag, all_here)">
<%
count, layout, half = plan.rows(result.form), plan.natural, result.form == "half"
every = range(plan.at_once(result.form))
there = [plan.there(plan.target_across, count, u) for u in every]
%>\
% for begin in every[:: plan.together(result.form)]:
<% numbers = every[begin : begin + plan.together(result.form)] %>\
% for u in numbers:
        const uint ${plan.walk(plan.target_across, count, u)};
<%
i = f"min(i{u}, {count} - 1u)" if "i" in there[u] else f"i{u}"
s = f"min(s{u}, {plan.slots - 1}u)" if "s" in there[u] else f"s{u}"
%>\
        const uint at${u} = ${layout.place(i, s)};
        const pair_t v${u} = (pair_t)(numbers[at${u}], numbers[at${u} + ${layout.size}]);
% if half:
        const uint m${u} = ${layout.place(f"(i{u} ? {plan.n_in_text} - {i} : 0)", s)};
        const pair_t mirror${u} = (pair_t)(numbers[m${u}], numbers[m${u} + ${layout.size}]);
% endif
% endfor
% for u in numbers:
        ${f"if ({there[u]}) " if there[u] else ""}{
            const long lane = lane0 + ${planes} * s${u};
% if number_of:
% for p in range(planes):
            const pair_t root${p} = with_sign(root_of((ulong)i${u} * ${number_of(f"s{u}", p)}, coarse, fine, shift), sign);
% endfor
% endif
            put${tag}(${rows.staged_place("y_at", plan, result, planes, u)}, i${u}, lane, ${planes if all_here else f"left({planes} * s{u}, lanes_here)"}, sign, scale${given}, v${u}${f", mirror{u}" if half else ""}${"".join(f", root{p}" for p in range(planes)) if number_of else ""});
        }
% endfor
% endfor
</%def>
