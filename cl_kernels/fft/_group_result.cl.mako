## A part of fft/group: store the results of the last stage, which are in registers, in the target.
##
##   write(plan, result, planes, number_of, loaded, fixed, tag)
##       result, planes, tag: as in group.  fixed: see _group_places.  number_of(slot, plane): the number l of the
##       twiddle factors, if there are any; loaded: whether load_twists (_group_stages) has loaded them
## product, with_sign, root_of, remaining: see _group_numbers.  In scope (_group_pass): lane0, the group's first lane;
## lanes_here, lanes of the group; re, im: number r of the work-item's butterfly b at b R + r.  Of a staged target, a
## work-item stores numbers u = 0, 1 ... : slot s{u}, row i{u}.
<%namespace name="cyclic" file="/fft/_group_cyclic.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%namespace name="split" file="/fft/_group_split.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%def name="write(plan, result, planes, number_of, loaded, fixed, tag)">
<% last, half, folded = plan.final, result.form == "half", result.form == "folded" %>\
% if plan.staged_target:
% if len(plan.stages) > 1 or plan.staged_source:
    ${plan.barrier};
% endif
% if plan.cyclic:
${cyclic.write_permuted(plan)}\
% else:
${local.write(plan, last, plan.natural, ("re", "im"), plan.used_outputs)}\
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
${rows.begin("y", result, 0, "lane0")}\
% for all_here in (True, False) if planes * plan.slots > 1 else (True,):
    ${f"if (lanes_here == {planes * plan.slots})" if all_here else "else"} {
${staged(plan, result, planes, number_of, loaded, fixed, tag, all_here)}\
    }
% endfor
% elif result.form == "split":
${split.write(plan, result, fixed, tag)}\
% else:
% if number_of:
${stages.twist_all(plan, number_of, loaded)}\
% endif
<% lane, live = f"lane0 + {planes} * {last.slot}", f"remaining({planes} * {last.slot}, lanes_here)" %>\
${rows.begin("y", result, last.item, lane)}\
% if half:
% for r in range(plan.n // 2 + 1):
<% mirror = -r % plan.n %>\
    put${tag}(${rows.further("y", result, r, 0, "")}, ${r}, ${lane}, ${live}, sign, scale${fixed},
        (pair_t)(re[${r}], im[${r}]),
        (pair_t)(re[${mirror}], im[${mirror}])${"".join(f", root{p}" for p in range(planes)) if number_of else ""});
% endfor
% else:
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
% for r in range(plan.used_outputs):
<%
further = b * plan.items + r * last.count
row = f"{last.item} + {further}"
mirrored = (rows.module.mirrored_of(plan, last, r) or rows.module.mirrored("y", result, row, lane)) if folded else ""
%>\
        ${f"if ({row} < n) " if plan.chirp else ""}put${tag}(${rows.further("y", result, further, 0, mirrored)},
            ${row}, ${lane}${", " * folded}${mirrored}, ${live}, sign, scale${fixed},
            (pair_t)(re[${b * last.radix + r}], im[${b * last.radix + r}]));
% endfor
    }
% endfor
% endif
% endif
</%def>
## Declare root0, and root1 for a second plane: the factors of number u of a work-item.
<%def name="twist(plan, form, planes, number_of, loaded, u)">
% if loaded:
<%
steps = plan.steps(form)
bits = [bit for bit in range(steps) if u >> bit & 1]  # from number 0 to number u by steps of 2^bit
root = f"twists[{steps * plan.slots} + id]"
for bit in bits:
    root = f"product({root}, twists[{bit * plan.slots} + s{u}])"
%>\
            const pair_t root0 = with_sign(${root}, sign);
% if planes == 2:
            const pair_t root1 = product(root0, with_sign(root_of((ulong)i${u}, coarse, fine, shift), sign));
% endif
% else:
% for p in range(planes):
            const pair_t root${p} = with_sign(root_of((ulong)i${u} * ${number_of(f"s{u}", p)}, coarse, fine, shift),
                sign);
% endfor
% endif
</%def>
## Store the numbers of a work-item, which are in local memory.  all_here: whether all lanes of the group exist.
<%def name="staged(plan, result, planes, number_of, loaded, fixed, tag, all_here)">
<%
count, layout, half, folded = plan.rows(result.form), plan.natural, result.form == "half", result.form == "folded"
numbers_of_item = range(plan.at_once(result.form))
conditions = [plan.there(plan.target_across, count, u) for u in numbers_of_item]
%>\
% for begin in numbers_of_item[:: plan.together(result.form)]:
<% numbers = numbers_of_item[begin : begin + plan.together(result.form)] %>\
% for u in numbers:
        const uint ${plan.walk(plan.target_across, count, u)};
<%
i = f"min(i{u}, {count} - 1u)" if "i" in conditions[u] else f"i{u}"
s = f"min(s{u}, {plan.slots - 1}u)" if "s" in conditions[u] else f"s{u}"
%>\
        const uint at${u} = ${layout.place(i, s)};
        const pair_t v${u} = (pair_t)(numbers[at${u}], numbers[at${u} + ${layout.size}]);
% if half:
        const uint mirror_at${u} = ${layout.place(f"(i{u} ? {plan.n_in_text} - {i} : 0)", s)};
        const pair_t mirror${u} = (pair_t)(numbers[mirror_at${u}], numbers[mirror_at${u} + ${layout.size}]);
% endif
% endfor
% for u in numbers:
        ${f"if ({conditions[u]}) " if conditions[u] else ""}{
            const long lane = lane0 + ${planes} * s${u};
<% mirrored = rows.module.mirrored("y", result, f"i{u}", "lane") if folded else "" %>\
${twist(plan, result.form, planes, number_of, loaded, u) if number_of else ""}\
            put${tag}(${rows.staged_place("y", plan, result, planes, u, mirrored)}, i${u},
                lane${", " * folded}${mirrored}, ${planes if all_here else f"remaining({planes} * s{u}, lanes_here)"},
                sign, scale${fixed}, v${u}${f", mirror{u}" if half else ""}${"".join(f", root{p}"
                for p in range(planes)) if number_of else ""});
        }
% endfor
% endfor
</%def>
