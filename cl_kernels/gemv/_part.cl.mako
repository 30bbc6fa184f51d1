## Work-groups of axpy_columns, long_rows and gemm/skinny that share a block of outputs: each sums one of `parts` parts
## of the summed axis, of part_size elements, and the last group to arrive adds them (see group/fix_up).  Without
## `split` a block has one group, and the kernel has no arguments `parts` and part_size.

## Declare this group's block, and the range [first, last) of the summed axis that is its part.
<%def name="bounds()">\
% if split:
    const uint part = get_group_id(0) % parts, block = get_group_id(0) / parts;
    const long first = part * part_size, last = min(first + part_size, n);
% else:
    const uint block = get_group_id(0);
    const long first = 0, last = n;
% endif
</%def>
