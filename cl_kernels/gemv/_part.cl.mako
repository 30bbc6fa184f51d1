## Work-groups that share a block of outputs: each takes a part of the summed axis, and with `split`,
## where there are several, the last of them to finish adds what all have left (see group/fix_up).

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
