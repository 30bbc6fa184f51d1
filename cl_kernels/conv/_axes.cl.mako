## The arguments of all kernels of convolutions, and defs for positions and items.  Strides count elements.  Axes of
## space are 0 to 2, slowest first; convolutions along fewer axes have extents of 1 in front.  In all kernels n is an
## image, o or k a channel of t, i or c a channel of s, q a place of t and r a tap of the filter (along axis 0, 1 or 2);
## at0, at1: the places of an item along axes 0 and 1; p0, p1, p2: the positions that a tap reads in s.
##
##   s, t, f     source; result, or in gradients by the weights the gradient of y; filters, or their gradient
##   bias, adds_bias, bias_step      the bias of each channel of t, whether there is one, and its stride
##   s_offset                        the first element of s in its buffer; those of other arrays alike
##   s_batch, s_channel, s_axis0     strides of s from image to image, between channels, along an axis; those of t alike
##   f_group, f_out, f_in            strides of f between groups, and in a group between channels of t, and of s
##   s0_size, t0_size, taps0         extents of s, of t and of the filter along an axis
##   channels, targets, sources      all channels of t; channels of t, and of s, in a group of the convolution
##   step, tap_step, shift, divisor  of each axis: the result at q reads, for tap r, the element of s at
##                                   (q * step + r * tap_step + shift) / divisor, if that is whole and inside of s
##   items, items_each               the number of items; how many of them a work-item of a CPU computes
##   columns, blocks                 an item has `columns` results along axis 2, so that a row has `blocks` blocks
##   lines, bands                    an item has `lines` rows along axis 1, so that a plane has `bands` bands
##
## Parameters of templates: elem, the Element of arrays; I, the C type of indices; order, the coordinates of an item as
## (name, extent), of which the last changes fastest.  A kernel of items is launched with a work-item for each item on
## GPUs, and with groups of one work-item, of `items_each` items, on CPUs.

## place: declare `name`, the position in s along axis `c` that tap `r` (C text) reads for the result at `at` (C text).
## Execute the statement `otherwise` if the position is outside of s or between its elements.  divided: whether divisors
## may exceed 1.
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

## The attribute of a kernel of items: on a CPU, groups of one work-item, for which PoCL's code is fastest.
<%def name="attribute()">${"__attribute__((reqd_work_group_size(1, 1, 1)))" if target.is_cpu else ""}</%def>

## Begin the block of an item, whose closing brace the kernel has.
<%def name="items(I)">\
% if target.is_cpu:
    const ${I} begin = get_global_id(0) * items_each, stop = min(begin + items_each, items);
    for (${I} item = begin; item < stop; item++) {
% else:
    const ${I} item = get_global_id(0);
    if (item >= items) return;
    {
% endif
</%def>

## Declare the coordinates of an item by its number (C text): one variable for each (name, extent) of `order`.
<%def name="coordinates(number, order, I)">\
    ${I} rest_of_number = ${number};
% for name, extent in reversed(order[1:]):
    const ${I} ${name} = rest_of_number % ${extent};
    rest_of_number /= ${extent};
% endfor
    const ${I} ${order[0][0]} = rest_of_number;
</%def>
