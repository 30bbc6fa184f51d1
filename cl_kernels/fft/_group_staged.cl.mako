## A part of fft/group: sides whose rows pass through local memory, between the order of butterflies in the registers of
## work-items and the order of numbers in global memory.
##
##   load(plan, source, planes, fixed, tag, all_here)     copy a source to local memory
##   store(plan, result, planes, number_of, loaded, fixed, tag, all_here)
##                                                        store the results that are in local memory in the target
##
## A work-item copies the numbers u = 0, 1 ... of a side: slot s{u}, row i{u} (plan.walk).  all_here: whether all lanes
## of the group exist.  layout: see _group_exchange.  fixed: see _group_places.  number_of, loaded: see _group_result.
## product, with_sign, root_of, remaining: see _group_numbers.  In scope (_group_pass): id; lane0, the group's first
## lane; lanes_here, its lanes; sign; scale; numbers, local memory.
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%def name="load(plan, source, planes, fixed, tag, all_here)">
<%
count, layout, half = plan.rows(source.form), plan.natural, source.form == "half"
folded = source.form == "folded"
numbers = range(plan.at_once(source.form))
conditions = [plan.there(plan.source_across, count, u) for u in numbers]
%>\
% for u in numbers:
        const uint ${plan.walk(plan.source_across, count, u)};
% if half:
        pair_t mirror${u};
% endif
<%
live = planes if all_here else f"remaining({planes} * s{u}, lanes_here)"
if conditions[u]:
    live = f"{conditions[u]} ? {live} : 0"
mirrored = rows.module.mirrored("x", source, f"i{u}", f"lane0 + {planes} * s{u}") if folded else ""
%>\
        const pair_t v${u} = load_row${tag}(${rows.staged_place("x", plan, source, planes, u, mirrored)}, i${u},
            lane0 + ${planes} * s${u}${f", {mirrored}" if folded else ""}, ${live},
            sign${fixed}${f", {plan.n_in_text}, &mirror{u}" if half else ""});
% endfor
% for u in numbers:
        ${f"if ({conditions[u]}) " if conditions[u] else ""}{
            const uint at = ${layout.place(f"i{u}", f"s{u}")};
            numbers[at] = v${u}.x, numbers[at + ${layout.size}] = v${u}.y;
% if half:
            if (i${u} > 0 && 2 * i${u} < ${plan.n_in_text}) {
                const uint mirror_at = ${layout.place(f"({plan.n_in_text} - i{u})", f"s{u}")};
                numbers[mirror_at] = mirror${u}.x, numbers[mirror_at + ${layout.size}] = mirror${u}.y;
            }
% endif
        }
% endfor
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

<%def name="store(plan, result, planes, number_of, loaded, fixed, tag, all_here)">
<%
count, layout, half, folded = plan.rows(result.form), plan.natural, result.form == "half", result.form == "folded"
numbers_of_item = range(plan.at_once(result.form))
conditions = [plan.there(plan.target_across, count, u) for u in numbers_of_item]
mirrors = [f", mirror{u}" if half else "" for u in numbers_of_item]
roots = "".join(f", root{plane}" for plane in range(planes)) if number_of else ""
%>\
% for begin in numbers_of_item[:: plan.registers(result.form)]:
<% numbers = numbers_of_item[begin : begin + plan.registers(result.form)] %>\
% for u in numbers:
        const uint ${plan.walk(plan.target_across, count, u)};
<%
# A slot or row that a condition excludes is replaced by the last one, so that a number is read in its place.
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
<%
mirrored = rows.module.mirrored("y", result, f"i{u}", "lane") if folded else ""
mirrored_argument = f", {mirrored}" if folded else ""
live = planes if all_here else f"remaining({planes} * s{u}, lanes_here)"
%>\
${twist(plan, result.form, planes, number_of, loaded, u) if number_of else ""}\
            put${tag}(${rows.staged_place("y", plan, result, planes, u, mirrored)}, i${u},
                lane${mirrored_argument}, ${live}, sign, scale${fixed}, v${u}${mirrors[u]}${roots});
        }
% endfor
% endfor
</%def>
