## cpu_image: the sums of the windows that contain each element of an image (col2im), on a CPU: the adjoint of
## cpu_columns.
##
##   t[n, channel, q] = bias[channel] + sum_r c[n, channel, r, (q + r * tap_step + shift) / divisor]
##
## over the taps r whose quotient is whole and within the places of the windows, in their order.  An item is a row of
## the image along axis 2: `columns` elements of one channel, or, if `last`, all elements of `columns` adjacent
## channels.  Its sums are in private memory while the taps are added one after the other.
##
## Arguments: see _axes and columns; s0_size, ... are places of the windows, s_axis0, ... their strides in c; p0, p1,
## p2: a place of the windows; at0, at1: the item's places along axes 0 and 1.
## matrix         the Element of the windows c
## last           whether channels are adjacent
## step           1 if places of windows are adjacent and the divisor of axis 2 is 1; else 0
## most           the maximum number of sums of an item
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, M = elem.name, matrix.name
result, source = ("p2", "p2") if step else ("p2 * divisor2", "p2 * s_axis2")
%>
${element.scalar(elem)}
% if M != E:
${element.scalar(matrix)}
% endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("image")}
{
    ${elem.real} sums[${most}];
    const long first_item = get_global_id(0) * ${items_each}, stop = min(first_item + ${items_each}, items);
    for (long item = first_item; item < stop; item++) {
${space.coordinates("item", order, "long")}\
        const long first = block * columns;
        __global const ${M}_t *windows = c + c_offset + n * c_batch + ${"first" if last else "channel * c_channel"};
        __global ${E}_t *to = t + t_offset + n * t_batch + ${"first" if last else "channel * t_channel"}
            + at0 * t_axis0 + at1 * t_axis1;
% if last:
        const long count = min(columns, channels - first);
        for (long q = 0; q < t2_size; q++) {
            for (long i = 0; i < count; i++)
                sums[i] = adds_bias ? ${E}_load(bias + bias_offset + (first + i) * bias_step) : 0;
% else:
        const long count = min(columns, t2_size - first);
        {  // instead of the loop over q
            const ${elem.real} start = adds_bias ? ${E}_load(bias + bias_offset + channel * bias_step) : 0;
            for (long i = 0; i < count; i++) sums[i] = start;
% endif
            for (long r0 = 0; r0 < taps0; r0++) {
${space.place("p0", 0, "at0", "r0", "long", True)}\
            for (long r1 = 0; r1 < taps1; r1++) {
${space.place("p1", 1, "at1", "r1", "long", True)}\
            for (long r2 = 0; r2 < taps2; r2++) {
                __global const ${M}_t *from = windows + ((r0 * taps1 + r1) * taps2 + r2) * c_tap
                    + p0 * s_axis0 + p1 * s_axis1;
% if last:
${space.place("p2", 2, "q", "r2", "long", True)}\
                for (long i = 0; i < count; i++) sums[i] += ${M}_load(from + p2 * s_axis2 + i);
% else:
                // Tap r2 adds place p2 to element p2 * divisor2 - off, for first <= that element < first + count.
                const long off = r2 * tap_step2 + shift2, begin = first + off, end = begin + count;
                const long low = begin > 0 ? (begin + divisor2 - 1) / divisor2 : 0;
                const long high = min(s2_size, end > 0 ? (end + divisor2 - 1) / divisor2 : 0);
                for (long p2 = low; p2 < high; p2++)
                    sums[${result} - begin] += ${M}_load(from + ${source});
% endif
            }
            }
            }
% if last:
            for (long i = 0; i < count; i++) ${E}_store(to + q * t_axis2 + i, sums[i]);
% else:
            for (long i = 0; i < count; i++) ${E}_store(to + (first + i) * t_axis2, sums[i]);
% endif
        }
    }
}
