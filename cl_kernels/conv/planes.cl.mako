## planes: a depthwise convolution, or its gradient by the input, on a CPU: sums over a padded copy of a plane.
##
##   t[n, o, q] = bias[o] + sum_r s[n, o / targets, q * step + r * tap_step + shift] f[o, r],      s is 0 outside
##
##            pitch                 A work-item computes a band of rows of a plane.  The rows of s that it reads are
##    0 0 0 0 0 0 0 0               copied between zeros.  The result at (q1, q2) is place q1 * pitch + q2; what a tap
##    0 s s s s s s 0               reads for place i is `i + offset` in the copy, so that there are no edges: sums of
##    0 s s s s s s 0               the places between rows are computed and not stored.
##
## With stride 2, even rows or columns are one copy and odd ones another, `phase` elements apart.
##
## Arguments: see _axes; a plane is an image's channel.  Item: image n, channel o, and a band of `lines` rows.  low1,
## low2: the lowest position that a tap reads for result 0, along axes 1 and 2.  rows_of_taps: rows that one result
## reads.  inside: elements of a row that are copied.  copied: the elements of the copy that are cleared.
##
## elem     element                       taps   taps along axes 1 and 2        V      numbers of a vector
## together vectors at a time             steps  strides along these axes       size   numbers of the copy, and of sums
## read, stored   elements of a vector that is copied from a row, and to one: a row has at least as many
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, real, all_taps = elem.name, elem.real, [(a, b) for a in range(taps[0]) for b in range(taps[1])]
%>
${element.scalar(elem)}
% for n in sorted({read, stored} - {1}):
${element.vector_load(elem, n, False)}
% endfor
% for n in sorted({stored} - {1}):
${element.vector_store(elem, n, False)}
% endfor
% for n in sorted({read, stored, V, V // steps[1]} - {1}):
typedef ${real}${n} unaligned${n}_t __attribute__((aligned(${8 if real == "double" else 4})));
% endfor
## An expression: a vector of n numbers at an address, which is aligned to a number only.
<%def name="unaligned(address, n)">${f"*(unaligned{n}_t *)({address})" if n > 1 else f"*({address})"}</%def>

__kernel ${space.of_group()}
void ${kernel("planes")}
{
${space.items("long", "each")}\
${space.digits(f"({I})item", [("n", "batch"), ("o", f"({I})channels"), ("band", f"({I})bands")], I)}\
    const ${I} group = o / (${I})targets;
    const long first = band * lines, count = min(lines, t1_size - first);
    __global const ${E}_t *const plane = s + s_offset + n * s_batch + group * s_channel;
    __global const ${E}_t *const filter = f + f_offset + group * f_group + (o - group * targets) * f_out;
    __global ${E}_t *const result = t + t_offset + n * t_batch + o * t_channel + first * t_axis1;
    ${real} copy[${size}] __attribute__((aligned(64))), sums[${size}] __attribute__((aligned(64)));
    for (long i = 0; i < copied; i += ${V})
        ${unaligned("copy + i", V)} = (${real}${V})(0);
% if steps[1] > 1:
    // A row, before its even and odd elements are separated.
    ${real} line[${size}] __attribute__((aligned(64)));
    for (long i = 0; i < ${steps[1]} * pitch + ${steps[1] * V}; i += ${V})
        ${unaligned("line + i", V)} = (${real}${V})(0);
% endif
    const long left = max(-low2, 0L), from = max(low2, 0L), last = inside - ${read};
    for (long row = 0; row < (count - 1) * ${steps[0]} + rows_of_taps; row++) {
        const long p1 = first * ${steps[0]} + low1 + row, at = row % ${steps[0]} * phase + row / ${steps[0]} * pitch;
        if (p1 < 0 || p1 >= s1_size) continue;
        __global const ${E}_t *source_row = plane + p1 * s_axis1 + from;
        ${real} *to = ${"line" if steps[1] > 1 else "copy + at"} + left;
        for (long i = 0; i < inside; i += ${read}) {
            const long begin = min(i, last);
            ${unaligned("to + begin", read)} = ${E}_load${read if read > 1 else ""}(source_row + begin);
        }
% if steps[1] > 1:
        for (long i = 0; i < pitch; i += ${V // 2}) {
            const ${real}${V} both = ${unaligned("line + 2 * i", V)};
            ${unaligned("copy + at + i", V // 2)} = both.even;
            ${unaligned(f"copy + at + i + {steps[0]} * phase", V // 2)} = both.odd;
        }
% endif
    }
    const ${real} start = adds_bias ? ${E}_load(bias + bias_offset + o * bias_step) : 0;
% for a, b in all_taps:
    const ${real} w${a}_${b} = ${E}_load(filter + ${a} * f_axis1 + ${b} * f_axis2);
% endfor
    // The distances of row a, and of column b, of the taps from the lowest position in s.
% for c, name, number in ((1, "a", taps[0]), (2, "b", taps[1])):
% for r in range(number):
    const long ${name}${r} = ${r} * tap_step${c} + shift${c} - low${c};
% endfor
% endfor
% for a, b in all_taps:
    const ${real} *const from${a}_${b} = copy + (b${b} % ${steps[1]} * ${steps[0]} + a${a} % ${steps[0]}) * phase
        + a${a} / ${steps[0]} * pitch + b${b} / ${steps[1]};
% endfor
    for (long i = 0; i < (count - 1) * pitch + t2_size; i += ${together * V}) {
        ${real}${V} ${", ".join(f"sum{v} = start" for v in range(together))};
% for a, b in all_taps:
% for v in range(together):
        sum${v} += ${unaligned(f"from{a}_{b} + i + {v * V}", V)} * w${a}_${b};
% endfor
% endfor
% for v in range(together):
        ${unaligned(f"sums + i + {v * V}", V)} = sum${v};
% endfor
    }
    for (long row = 0; row < count; row++)
        for (long i = 0; i < t2_size; i += ${stored}) {
            const long begin = min(i, t2_size - ${stored});
            ${E}_store${stored if stored > 1 else ""}(result + row * t_axis1 + begin,
                ${unaligned("sums + row * pitch + begin", stored)});
        }
    }
}
