## Work-groups that share a block of outputs: each takes a part of the summed axis.  With `split` there
## are several parts, and the last group to finish adds the sums of all.

## This group's block, and the columns [first, last) of its part.
<%def name="bounds()">\
% if split:
    const uint part = get_group_id(0) % parts, block = get_group_id(0) / parts;
    const long first = part * part_size, last = min(first + part_size, n);
% else:
    const uint block = get_group_id(0);
    const long first = 0, last = n;
% endif
</%def>

## Whether this group is the last of its block; called after all work-items have stored their sums.
<%def name="meet()">\
    GROUP_FENCE();
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (lid == 0) is_last = word_last(counters + block, parts);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
</%def>
