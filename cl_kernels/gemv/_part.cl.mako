## Work-groups that share a block of outputs: each sums one of `parts` parts of the summed axis, and the last group to
## arrive adds them (see group/fix_up).  Without `split` a block has one group, and the kernel has no such argument.

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
