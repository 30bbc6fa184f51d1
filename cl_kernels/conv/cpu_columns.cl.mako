## cpu_columns: the windows of an image as the columns of a matrix (im2col), on a CPU.  Arguments: see _axes, columns.
##
##   c[n, channel, r, q] = s[n, channel, q * step + r * tap_step + shift], or 0 outside of s
##
## An item is one row of `columns` places q along axis 2, of image n and at (at0, at1) of axes 0 and 1, with all
## elements that the taps r read there.  They are those of one channel or, if `last`, of all channels, which are
## adjacent in the image and in the matrix.  The places of a tap that are inside of a row are a range, so that the loops
## over them have no branch.
##
## last   whether channels are adjacent             step   1 or 2: the step along axis 2, if elements are adjacent in
##                                                         both arrays; else 0
## width  0, or the places of a panel, if the matrix is packed for products (gemm/packed): the steps k are (channel, r),
##        and each share of share_steps steps has share_size elements:
##            c[n, k / share_steps, q / width, k % share_steps, q % width]
## run    the elements of a row of taps of all channels, if these are adjacent and few; else 0
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E = elem.name
to_place, from_place = ("q", f"q * {step} + from") if step else ("q * c_place", "(q * step2 + from) * s_axis2")
%>
${element.scalar(elem)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("columns")}
{
    const long first_item = get_global_id(0) * ${items_each}, stop = min(first_item + ${items_each}, items);
    for (long item = first_item; item < stop; item++) {
${space.coordinates("item", order, "long")}\
        const long begin = block * columns, end = min(begin + columns, t2_size);
        __global const ${E}_t *image = s + s_offset + n * s_batch${"" if last else " + channel * s_channel"};
        __global ${E}_t *matrix = c + c_offset + n * c_batch${"" if last else " + channel * c_channel"}
            + (at0 * t1_size + at1) * t2_size * c_place;
% if width:
        const ulong first = (at0 * t1_size + at1) * t2_size;
        long k = channel * taps0 * taps1 * taps2;  // the step within its share
        __global ${E}_t *block_of_k = c + c_offset + n * c_batch + k / share_steps * share_size;
        k %= share_steps;
% endif
        for (long r0 = 0; r0 < taps0; r0++)
        for (long r1 = 0; r1 < taps1; r1++) {
            const long p0 = at0 * step0 + r0 * tap_step0 + shift0, p1 = at1 * step1 + r1 * tap_step1 + shift1;
            const bool inside = p0 >= 0 && p0 < s0_size && p1 >= 0 && p1 < s1_size;
            __global const ${E}_t *row = image + p0 * s_axis0 + p1 * s_axis1;
% if run:
            for (long q = begin; q < end; q++) {
                const long from = q * step2 + shift2;
                __global const ${E}_t *window = row + from * s_axis2;
                __global ${E}_t *to = matrix + (r0 * taps1 + r1) * ${run} + q * c_place;
                if (inside && from >= 0 && from + taps2 <= s2_size) {
                    for (long i = 0; i < ${run}; i++) to[i] = window[i];
                    continue;
                }
                const long low = clamp(-from, 0L, taps2) * channels, high = clamp(s2_size - from, 0L, taps2) * channels;
                for (long i = 0; i < ${run}; i++) to[i] = inside && i >= low && i < high ? window[i] : 0;
            }
% else:
            for (long r2 = 0; r2 < taps2; r2++) {
% if width:
                __global ${E}_t *step = block_of_k + k++ * ${width};
                if (k == share_steps) k = 0, block_of_k += share_size;
% else:
                __global ${E}_t *to = matrix + ((r0 * taps1 + r1) * taps2 + r2) * c_tap;
% endif
                const long from = r2 * tap_step2 + shift2;
                // Places low <= q < high read inside of the row: 0 <= q * step2 + from < s2_size.
                const long low = from < 0 ? (step2 - 1 - from) / step2 : 0;
                const long high = from < s2_size ? (s2_size - from + step2 - 1) / step2 : 0;
                const long left = inside ? clamp(low, begin, end) : end;
                const long right = inside ? clamp(high, left, end) : end;
% for start, limit, value in (("begin", "left", None), ("left", "right", "read"), ("right", "end", None)):
% if width:
                for (long q = ${start}; q < ${limit};) {  // the places of one panel
                    const ulong place = first + q, column = place % ${width};
                    const long after = min(${limit}, q + ${width} - (long)column);
                    __global ${E}_t *to = step + place / ${width} * share_steps * ${width} + column - q;
                    for (; q < after; q++) to[q] = ${f"row[{from_place}]" if value else "0"};
                }
<% continue %>
% endif
                for (long q = ${start}; q < ${limit}; q++)
% if last:
                    for (long i = 0; i < channels; i++)
                        to[q * c_place + i] = ${f"row[(q * step2 + from) * s_axis2 + i]" if value else "0"};
% else:
                    to[${to_place}] = ${f"row[{from_place}]" if value else "0"};
% endif
% endfor
            }
% endif
        }
    }
}
