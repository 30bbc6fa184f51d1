## image: the sums of the windows that contain each element of an image (col2im), on a GPU: the adjoint of conv/columns.
##
##   t[n, channel, q] = bias[channel] + sum_r c[n, channel, r, (q + r * tap_step + shift) / divisor]
##
## over the taps r whose quotient is whole and within the places of the windows, in their order.  A work-item sums an
## item: `columns` neighbours q along axis 2 of one channel of image n, at (at0, at1) of axes 0 and 1.
##
## Arguments: see _axes and columns; s0_size, ... are the numbers of windows along the axes, s_axis0, ... the strides
## of c between them.  A tap without a whole quotient within these goes on with the next tap (`place` has a `continue`).
## matrix: the Element of the windows c.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% E, M = elem.name, matrix.name %>
${element.scalar(elem)}
% if M != E:
${element.scalar(matrix)}
% endif

__kernel void ${kernel("image")}
{
    const ${I} item = get_global_id(0);
    if (item >= items) return;
${space.coordinates("item", order, I)}\
    __global const ${M}_t *windows = c + c_offset + n * c_batch + channel * c_channel;
    __global ${E}_t *to = t + t_offset + n * t_batch + channel * t_channel + at0 * t_axis0 + at1 * t_axis1;
    const ${elem.real} start = adds_bias ? ${E}_load(bias + bias_offset + channel * bias_step) : 0;
    const ${I} end = min((block + 1) * columns, t2_size);
    for (${I} q = block * columns; q < end; q++) {
        ${elem.real} sum = start;
        for (${I} r0 = 0; r0 < taps0; r0++) {
${space.place("p0", 0, "at0", "r0", I, True)}\
        for (${I} r1 = 0; r1 < taps1; r1++) {
${space.place("p1", 1, "at1", "r1", I, True)}\
        for (${I} r2 = 0; r2 < taps2; r2++) {
${space.place("p2", 2, "q", "r2", I, True)}\
            sum += ${M}_load(windows + ((r0 * taps1 + r1) * taps2 + r2) * c_tap
                + p0 * s_axis0 + p1 * s_axis1 + p2 * s_axis2);
        }
        }
        }
        ${E}_store(to + q * t_axis2, sum);
    }
}
