## For the producer of wgmma: the entries of the table of steps that a work-item needs to copy a gathered operand (see
## _gathered_lines, and _gather for the table).
##
##   two_ahead       an entry is loaded two steps before it is used, because the load takes about as long as the copies
##                   of a step.  This is so if one warpgroup copies, and values have one piece
##   not two_ahead   an entry is loaded one copy before it is used
##
## v numbers the distinct steps of k of a work-item's copies:
##   NAME_entry<v>                    the entry of the step that is copied now
##   NAME_far<v>                      the offset in memory of that entry's period, in elements (see _gather)
##   NAME_next<v>, NAME_next_far<v>   with two_ahead: the same of the next step
##   NAME_entry_at<v>                 the index in the table of the entry that was loaded last
##
## lines: portable_gpu.ops.gemm.matrix.lines.Lines.  pieces, policy: as in wgmma.  In scope: k; k_first, the first step
## of k of the unit (_units); piece, the number of the piece that is copied.

<%def name="two_ahead()"><% return pieces == 1 and policy.producers == 1 %></%def>

## Load the first entries.  steps: C expressions of the distinct steps of k of this work-item's copies in a tile.
<%def name="first_entries(lines, steps)"><% n, r = lines.name, lines.reader %>\
% for v, k in enumerate(steps):
% if r.wraps:
    int ${n}_entry_at${v} = (int)((k_first + ${k}) % ${n}_period);
    long ${n}_far${v} = (k_first + ${k}) / ${n}_period * ${n}_repeat;
% else:
    int ${n}_entry_at${v} = (int)k_first + ${k};
% endif
    ${r.entry_type} ${n}_entry${v} = ${loaded(lines, v)};
% if two_ahead():
% if r.wraps:
    long ${n}_next_far${v} = ${n}_far${v};
% endif
${advance(lines, v, "next_far")}\
    ${r.entry_type} ${n}_next${v} = ${loaded(lines, v)};
% endif
% endfor
</%def>

## Advance to the entries of the next copy, and load those of a later one.  count: the number of distinct steps.
<%def name="next_entries(lines, count)"><% n = lines.name %>\
% for v in range(count):
% if two_ahead():
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

## An expression: the entry at NAME_entry_at<v>; if the table has an entry for each step of k, zeros beyond its end.
<%def name="loaded(lines, v)"><%
n, r = lines.name, lines.reader
at = f"{n}_entry_at{v}"
return f"{n}_steps[{at}]" if r.wraps else f"{at} < k ? {n}_steps[{at}] : ({r.entry_type})(0)"
%></%def>

## Advance NAME_entry_at<v> by a step of the main loop; of several pieces only after the last one.  far: the name of the
## offset that grows where a period ends, "far" or "next_far".
<%def name="advance(lines, v, far)"><% n = lines.name %>\
    ${n}_entry_at${v} += ${f"piece == {pieces - 1} ? {lines.depth} : 0" if pieces > 1 else lines.depth};
% if lines.reader.wraps:
    if (${n}_entry_at${v} >= ${n}_period) {
        ${n}_entry_at${v} -= ${n}_period;
        ${n}_${far}${v} += ${n}_repeat;
    }
% endif
</%def>
