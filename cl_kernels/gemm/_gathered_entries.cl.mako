## The entries of the table of steps that a work-item needs to copy a gathered operand (see _gathered_lines).
##
## A load takes about as long as the copies of a step.  So a single warpgroup loads an entry two steps before its
## copies, and NAME_next has the entry of the next step.  Two warpgroups load it one copy before, and so does a
## warpgroup that copies several pieces of each value.
##
##   NAME_entry, NAME_far             the entry of this step, and the offset in memory of its period (see _gather)
##   NAME_entry_at, NAME_next_far     the index of the entry that is loaded next, and the offset of its period
## A work-item with several distinct steps of k has these names with a number: NAME_entry0, NAME_entry1 ...

## Load the first entries.  steps: the places of this work-item's copies along k.
<%def name="first(lines, steps)"><% n, r = lines.name, lines.reader %>\
% for v, k in enumerate(steps):
% if r.wraps:
    int ${n}_entry_at${v} = (int)((k_first + ${k}) % ${n}_period);
    long ${n}_far${v} = (k_first + ${k}) / ${n}_period * ${n}_repeat;
% else:
    int ${n}_entry_at${v} = (int)k_first + ${k};
% endif
    ${r.entry_type} ${n}_entry${v} = ${loaded(lines, v)};
% if parts == 1 and policy.producers == 1:
% if r.wraps:
    long ${n}_next_far${v} = ${n}_far${v};
% endif
${advance(lines, v, "next_far")}\
    ${r.entry_type} ${n}_next${v} = ${loaded(lines, v)};
% endif
% endfor
</%def>

## Advance to the entries of the next copy, and load those of a later one.  count: the number of copies with different
## steps.
<%def name="following(lines, count)"><% n = lines.name %>\
% for v in range(count):
% if parts == 1 and policy.producers == 1:
    ${n}_entry${v} = ${n}_next${v};
% if lines.reader.wraps:
    ${n}_far${v} = ${n}_next_far${v};
% endif
${advance(lines, v, "next_far")}\
    ${n}_next${v} = ${loaded(lines, v)};
% else:
${advance(lines, v, "far")}\
    ${n}_entry${v} = ${loaded(lines, v)};
% endif
% endfor
</%def>

## An expression: the entry at NAME_entry_at<v>, zeros behind the end of k.
<%def name="loaded(lines, v)"><%
n, r = lines.name, lines.reader
at = f"{n}_entry_at{v}"
return f"{n}_steps[{at}]" if r.wraps else f"{at} < k ? {n}_steps[{at}] : ({r.entry_type})(0)"
%></%def>

## Advance NAME_entry_at<v> by a step of the main loop, or, of several pieces, after the last one.
<%def name="advance(lines, v, far)"><% n = lines.name %>\
    ${n}_entry_at${v} += ${f"part == {parts - 1} ? {lines.depth} : 0" if parts > 1 else lines.depth};
% if lines.reader.wraps:
    if (${n}_entry_at${v} >= ${n}_period) {
        ${n}_entry_at${v} -= ${n}_period;
        ${n}_${far}${v} += ${n}_repeat;
    }
% endif
</%def>
