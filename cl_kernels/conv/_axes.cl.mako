## The positions of results and taps, for all kernels of convolutions.
##
##   place(...)   declare the position in the source that a tap reads; skip the tap if there is none
##   digits(...)  declare the coordinates of a number in a product of ranges
##   of_group()   the attribute of a kernel of items: PoCL compiles groups of one work-item fastest
##   items(...)   begin the block of an item

## Declare `name`, the position along axis `c` that tap `r` reads for the result at `at`.  Execute the statement
## `otherwise` if the position is outside the source or between its elements.
<%def name="place(name, c, at, r, I, divided, otherwise='continue')">\
        ${I} ${name} = ${at} * step${c} + ${r} * tap_step${c} + shift${c};
% if divided:
        if (${name} < 0 || ${name} % divisor${c}) ${otherwise};
        ${name} /= divisor${c};
        if (${name} >= s${c}_size) ${otherwise};
% else:
        if (${name} < 0 || ${name} >= s${c}_size) ${otherwise};
% endif
</%def>

<%def name="of_group()">${"__attribute__((reqd_work_group_size(1, 1, 1)))" if target.is_cpu else ""}</%def>

<%def name="items(I, each)">\
% if target.is_cpu:
    const ${I} begin = get_global_id(0) * ${each}, stop = min(begin + ${each}, items);
    for (${I} item = begin; item < stop; item++) {
% else:
    const ${I} item = get_global_id(0);
    if (item >= items) return;
    {
% endif
</%def>

## Declare a coordinate for each (name, extent) of `order`.  The last one changes fastest; the first one is the
## quotient.
<%def name="digits(number, order, I)">\
    ${I} rest_of_digits = ${number};
% for name, extent in reversed(order[1:]):
    const ${I} ${name} = rest_of_digits % ${extent};
    rest_of_digits /= ${extent};
% endfor
    const ${I} ${order[0][0]} = rest_of_digits;
</%def>
