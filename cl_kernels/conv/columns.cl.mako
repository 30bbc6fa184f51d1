## columns: the windows of an image as the columns of a matrix (im2col), on a GPU.  Arguments: see _axes.
##
##   c[n, channel, r, q] = s[n, channel, q * step + r * tap_step + shift], or 0 outside of s
##
## A work-item copies one item: the elements of one channel that all taps r read for `columns` adjacent results q along
## axis 2, at (at0, at1) of axes 0 and 1.  c_batch, c_channel, c_tap, c_place: strides of the matrix between images,
## channels, taps and results q.  p0, p1, p2: the position in s.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% E = elem.name %>
${element.scalar(elem)}

__kernel void ${kernel("columns")}
{
    const ${I} item = get_global_id(0);
    if (item >= items) return;
${space.coordinates("item", order, I)}\
    __global const ${E}_t *image = s + s_offset + n * s_batch + channel * s_channel;
    __global ${E}_t *matrix = c + c_offset + n * c_batch + channel * c_channel
        + (at0 * t1_size + at1) * t2_size * c_place;
    const ${I} end = min((block + 1) * columns, t2_size);
    for (${I} r0 = 0; r0 < taps0; r0++)
    for (${I} r1 = 0; r1 < taps1; r1++) {
        const ${I} p0 = at0 * step0 + r0 * tap_step0 + shift0, p1 = at1 * step1 + r1 * tap_step1 + shift1;
        const bool inside = p0 >= 0 && p0 < s0_size && p1 >= 0 && p1 < s1_size;
        __global const ${E}_t *row = image + p0 * s_axis0 + p1 * s_axis1;
        for (${I} r2 = 0; r2 < taps2; r2++) {
            __global ${E}_t *to = matrix + ((r0 * taps1 + r1) * taps2 + r2) * c_tap;
            const ${I} from = r2 * tap_step2 + shift2;
            for (${I} q = block * columns; q < end; q++) {
                const ${I} p2 = q * step2 + from;
                to[q * c_place] = inside && p2 >= 0 && p2 < s2_size ? row[p2 * s_axis2] : 0;
            }
        }
    }
}
