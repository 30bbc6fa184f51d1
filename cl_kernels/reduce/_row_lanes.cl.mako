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

## Row lanes below `left` fold vector c of the row lanes + left, + 2 left ... below `count` into theirs.
<%def name="exchange(acc, c, left, count)">
% for field in r.acc.fields:
    shared[get_local_id(0)].${field.name} = total${c}.${field.name};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint other = y_lane + ${left}; y_lane < ${left} && other < ${count}; other += ${left})
        total${c} = ${acc}_combine(total${c}, shared[other * ${CX} + x_lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
