## A part of columns: fold the vectors total0 ... of all CY row lanes into those of row lane 0, up to eight into one in
## a step: a tree of pairs has three times as many barriers.  x_lane, y_lane: the work-item's place in the group, of CX
## x CY.  shared: a vector of accumulators for each work-item, in local memory.
<%def name="fold()">
<% acc, lanes_left = r.acc.type(V), CY %>
% while lanes_left > 1:
% for c in range(C):
    ${exchange(acc, c, max(1, lanes_left // 8), lanes_left)}
% endfor
<% lanes_left = max(1, lanes_left // 8) %>
% endwhile
</%def>

## Fold vector c of `count` row lanes into those of the first `remaining` ones: row lane y folds the vectors of the row
## lanes y + remaining, y + 2 remaining ... into its own.
<%def name="exchange(acc, c, remaining, count)">
% for field in r.acc.fields:
    shared[get_local_id(0)].${field.name} = total${c}.${field.name};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint other = y_lane + ${remaining}; y_lane < ${remaining} && other < ${count}; other += ${remaining})
        total${c} = ${acc}_combine(total${c}, shared[other * ${CX} + x_lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
