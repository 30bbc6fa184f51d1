## cpu_weight: the gradient of a convolution by its weights, on a CPU.  Arguments: see _axes.
##   f[k, c, r] = sum_{n, q} t[n, k, q] s[n, c, q * step + r * tap_step + shift]
##
## A work-group, of one work-item, has a block of filters k and channels c, and a part of the tiles: rows and columns of
## the places q of a few images.  It copies a tile of t and what the taps read of s; zeros follow each row of both
## copies.  The last block of k, and of c, begins earlier, so that it is whole.
##
##   rows of t    |0 1 2 3 z z|   a tap reads the copy of s at a constant distance from the place in that of t, so that
##   rows of s    |z 0 1 2 3 z|   a tile is one sequence of places, without ends of rows (z: a zero)
##
## Elements of s with the same remainder by the step of an axis (a phase) are adjacent in the copy.  The copies are
## ys[filter][image][row][place] and xs[filter, if x_lanes][image][phase][row][place], with `pitch` places a row.
## Arguments: part_size and places, the number of tiles of a group and of all; s_elements and t_elements, extents in
## memory; images, rows and cols, of a tile; blocks1 and blocks2, tiles along axes 1 and 2.
## V        components of a vector   y_lanes, x_lanes  whether a vector has V adjacent filters, and channels of a
##                                   depthwise layer, of one place; else V places of one channel
## units    filters, or vectors of them, of a group           sources_at_once  channels of a group
## wide     filters * channels of a group                     F, B, C  see _tile_passes
## taps, step, tap_step  of each axis                         x_size, y_size  numbers, or vectors, of the copies
## adjacent_x, adjacent_y  whether elements of a row are adjacent
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="rows" file="/conv/_tile_rows.cl.mako"/>
<%namespace name="tile_passes" file="/conv/_tile_passes.cl.mako"/>
<%namespace name="sums" file="/conv/_sums.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%! from math import gcd %>
<%
E, real, words = elem.name, elem.real, fix_up.module.words(elem.real)
T, filters = taps[0] * taps[1] * taps[2], wide // sources_at_once
vectors = units * sources_at_once * T
x_type, y_type = (("sum_t" if in_lanes else real) for in_lanes in (x_lanes, y_lanes))
periods = [step[axis] // gcd(step[axis], tap_step[axis]) for axis in (1, 2)]  # tap r reads the phase of tap r % period
phases = [min(taps[axis], periods[axis - 1]) for axis in (1, 2)]
halo = [(taps[axis] - 1) * tap_step[axis] // step[axis] for axis in (1, 2)]  # rows, columns beyond a tile
%>
${element.scalar(elem)}
${element.vector_load(elem, V, False)}
typedef ${real}${V} sum_t;
typedef sum_t anywhere_t __attribute__((aligned(${8 if real == "double" else 4})));
${fix_up.define()}
${rows.copy("x", elem, V, units, adjacent_x, step[2], x_lanes)}
${rows.copy("y", elem, V, units, adjacent_y, 1, y_lanes)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("cpu_weight")}
{
    ${x_type} xs[${x_size}] __attribute__((aligned(64)));
    ${y_type} ys[${y_size}] __attribute__((aligned(64)));
    sum_t sum[${vectors}];  // [filter, or vector of them][channel][tap]
    ${real} scratch[${T * wide}];
    uint is_last;
    const uint lid = 0;
    const long part = get_group_id(0) % parts, block = get_group_id(0) / parts;
% if x_lanes:
    const long k = min(block * ${filters}, pairs - ${filters}), c0 = 0, source = k;
% else:
    const long group = block / source_blocks / filter_blocks;
    const long c0 = min(block % source_blocks * ${sources_at_once}, sources - ${sources_at_once});
    const long k = group * targets + min(block / source_blocks % filter_blocks * ${filters}, targets - ${filters});
    const long source = group * sources + c0;
% endif
    __global const ${E}_t *s_end = s + s_offset + s_elements, *t_end = t + t_offset + t_elements;
    s += s_offset + source * s_channel;
    t += t_offset + k * t_channel;
    for (int i = 0; i < ${vectors}; i++) sum[i] = (sum_t)(0);
    const long stop = min((part + 1) * part_size, places);
    for (long tile = part * part_size; tile < stop; tile++) {
        const long q2 = tile % blocks2 * cols, q1 = tile / blocks2 % blocks1 * rows;
        const long at0 = tile / (blocks2 * blocks1) % t0_size, n = tile / (blocks2 * blocks1 * t0_size) * images;
        const int own_images = min(images, batch - n), own_rows = min(rows, t1_size - q1);
        const int own_cols = min(cols, t2_size - q2), pitch = cols + ${halo[1]};
        const int count = (own_rows - 1) * pitch + own_cols;
        const int y_image = ${"own_rows * pitch" if y_lanes else f"(own_rows * pitch + {2 * V - 1}) / {V} * {V}"};
        const int y_unit = own_images * y_image;  // vectors of V places are aligned there
        const int plane = (own_rows + ${halo[0]}) * pitch, x_image = ${phases[0] * phases[1]} * plane;
        const int x_unit = own_images * x_image;
        for (int f = 0; f < ${1 if y_lanes else units}; f++)
        for (int i = 0; i < own_images; i++) {
            ${y_type} *to = ys + f * y_unit + i * y_image;
            __global const ${E}_t *y = t + (n + i) * t_batch + f * t_channel
                + at0 * t_axis0 + q1 * t_axis1 + q2 * t_axis2;
            for (int r = 0; r < own_rows; r++, to += pitch)
                copy_y(to, y + r * t_axis1, t_end, 0, own_cols, pitch, t_axis2, y_unit);
            ${"" if y_lanes else "*(anywhere_t *)to = (sum_t)(0);"}
        }
        // For each plane of taps (a, along axis 0) and channel: copy what its taps read, phase (u, v) by phase;
        // multiply.
        for (int a = 0; a < ${taps[0]}; a++)
        for (int c = 0; c < ${sources_at_once}; c++) {
            const long p0 = at0 * ${step[0]} + a * ${tap_step[0]} + shift0;
            if (p0 < 0 || p0 >= s0_size) continue;
            ${x_type} *to = xs;
            for (int i = 0; i < own_images; i++)
            for (int u = 0; u < ${phases[0]}; u++)
            for (int v = 0; v < ${phases[1]}; v++) {
                const long from = q2 * ${step[2]} + v * ${tap_step[2]} % ${step[2]} + shift2;
                const int first = clamp((${step[2] - 1} - from) / ${step[2]}, 0L, (long)pitch);
                const int last = clamp((s2_size - from + ${step[2] - 1}) / ${step[2]}, (long)first, (long)pitch);
                __global const ${E}_t *phase = s + (n + i) * s_batch + c * s_channel + p0 * s_axis0 + from * s_axis2;
                for (int r = 0; r < own_rows + ${halo[0]}; r++, to += pitch) {
                    const long p1 = (q1 + r) * ${step[1]} + u * ${tap_step[1]} % ${step[1]} + shift1;
                    const bool inside = p1 >= 0 && p1 < s1_size;
                    copy_x(to, phase + p1 * s_axis1, s_end, first, inside ? last : first, pitch, s_axis2, x_unit);
                }
            }
            ${"" if y_lanes else "*(anywhere_t *)to = (sum_t)(0);"}
${tile_passes.passes(x_type, y_type, phases, periods)}\
        }
    }
    for (int n = 0; n < ${vectors}; n++) {  // from `sum`, by filter, channel and tap, to `scratch`, by tap and pair
        const int at = n % ${T} * ${wide} + n / ${T} % ${sources_at_once}, u = n / ${T * sources_at_once};
% for l in range(V if y_lanes else 0):
        scratch[at + (u * ${V} + ${l}) * ${sources_at_once}] = sum[n].s${f"{l:x}"};
% endfor
<% total = " + ".join(f"sum[n].s{l:x}" for l in range(V)) %>\
        ${"" if y_lanes else f"scratch[at + u * {sources_at_once}] = {total};"}
    }
${sums.store(taps, (0, 0, 0), wide, words, f"(k + l / {sources_at_once}) * sources + c0 + l % {sources_at_once}")}\
}
