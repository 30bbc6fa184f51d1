## The positions of a panel of single elements (see _panel) whose operand may be contiguous along k or along s (the rows
## of A, the columns of B).  The strides determine which at run time, so that one program serves both.
##
##   NAME_by_k                   whether neighbouring work-items load neighbours along k
##   NAME_s, NAME_k              the position of a work-item's first element
##   NAME_s_step, NAME_k_step    the distance from each of its elements to the next
##
##   by k   each `depth` neighbouring work-items load all k of one row s
##   by s   each `extent` neighbouring work-items load all s of one step of k
##
## Declare these names.  t: the number of the work-item.
<%def name="begin(panel)">
<% n = panel.name %>\
    const bool ${n}_by_k = abs(${n}_${panel.k_stride}) < abs(${n}_${panel.s_stride});
    const int ${n}_s = ${n}_by_k ? t / ${panel.depth} : t % ${panel.extent}, ${n}_k = ${n}_by_k ? t % ${panel.depth}
        : t / ${panel.extent};
% if panel.loads > 1:
    const int ${n}_s_step = ${n}_by_k ? ${panel.group // panel.depth} : 0, ${n}_k_step = ${n}_by_k ? 0
        : ${panel.group // panel.extent};
% endif
</%def>

## Store the registers to local memory: each branch has constant distances from the first position.
<%def name="store(panel, buffer)">
<% n = panel.name %>\
<% branches = (f"if ({n}_by_k)", 0, panel.group // panel.depth), ("else", panel.group // panel.extent, 0) %>\
% for branch, k_step, s_step in branches:
    ${branch} {
% for i in range(panel.loads):
        ${n.upper()}_LOCAL(${buffer}, ${n}_k + ${i * k_step}, ${n}_s + ${i * s_step}) = ${n}_value(${n}_r${i});
% endfor
    }
% endfor
</%def>
