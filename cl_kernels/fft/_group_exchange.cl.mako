## The exchange of numbers between the work-items of a group of fft/group, through local memory `numbers`.
##
##   write(plan, stage, layout, parts, results)   store the results of a stage in their rows: re, im or both; the first
##                                                `results` of each butterfly
##   read(plan, stage, layout, parts, inputs)     load the first `inputs` rows of each butterfly of a stage
##   exchange(plan, first, second, used)          from the registers of one stage to those of the next; used: whether
##                                                local memory has been used before
##
## A layout (LocalLayout) gives the position of row i of slot s, the group's transform s: slots are adjacent, or rows
## are, with gaps so that neighbouring work-items access different banks.  place: C text of an index; step(rows): the
## distance between rows; even: whether it is the same for all rows; size: numbers of one part, re or im.  Both parts
## are exchanged at once, or re before im where local memory is too small (plan.rounds).  Registers re, im have number r
## of the work-item's butterfly b at b R + r; j is its number in the transform.  A stage of radix R has `count`
## butterflies of a transform and `butterflies` of a work-item; N = before: the product of the radices of earlier
## stages.  Its inputs are rows j + r count, its results rows j / N * N R + j % N + r N.

## A condition that butterfly b of a work-item exists, where not all do.
<%def name="guard(plan, stage, b)">\
${f"if ({stage.item} + {b * plan.items} < {stage.count}) " if (b + 1) * plan.items > stage.count else ""}\
</%def>

<%def name="write(plan, stage, layout, parts, results)">
<% R, N = stage.radix, stage.before %>\
% for b in range(stage.butterflies):
    ${guard(plan, stage, b)}{
        const uint j = ${stage.butterfly(b, plan.items)};
        __local real_t *at = numbers
            + ${layout.place(f"(j / {N} * {N * R} + j % {N})" if N > 1 else f"(j * {R})", stage.slot)};
% for r in range(results):
% for part in parts:
        at[${layout.step(r * N) + layout.size * (len(parts) - 1) * (part == "im")}] = ${part}[${b * R + r}];
% endfor
% endfor
    }
% endfor
</%def>

<%def name="read(plan, stage, layout, parts, inputs)">
<% R, M = stage.radix, stage.count %>\
% for b in range(stage.butterflies):
    ${guard(plan, stage, b)}{
        const uint j = ${stage.butterfly(b, plan.items)};
% if layout.even(M):
        __local const real_t *at = numbers + ${layout.place("j", stage.slot)};
% endif
% for r in range(inputs):
% for part in parts:
<% part_offset = layout.size * (len(parts) - 1) * (part == "im") %>\
        ${part}[${b * R + r}] = ${(f"at[{layout.step(r * M) + part_offset}]"
            if layout.even(M)
            else f"numbers[{layout.place(f'(j + {r * M})', stage.slot)} + {part_offset}]")};
% endfor
% endfor
    }
% endfor
</%def>

<%def name="exchange(plan, first, second, used)">
% for parts in plan.rounds:
% if used or parts is not plan.rounds[0]:
    ${plan.barrier};
% endif
${write(plan, first, second.layout, parts, first.radix)}\
## The barrier of the first stage also orders the loads from the source before the stores of results, which may
## overwrite the source.
    ${plan.barrier if first.number or plan.within_subgroup else "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"};
${read(plan, second, second.layout, parts, second.radix)}\
% endfor
</%def>
