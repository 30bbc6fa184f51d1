## Work-groups that share a block of outputs: each sums one of `parts` parts of the summed axis, and the last group to
## arrive adds them (see group/fix_up).

## This group's block, and the columns [first, last) of its part.
<%def name="bounds()">\
    const uint part = get_group_id(0) % parts, block = get_group_id(0) / parts;
    const long first = part * part_size, last = min(first + part_size, n);
</%def>
