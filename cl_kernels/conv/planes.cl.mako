## planes: a depthwise convolution, or its gradient by the input, on a CPU: sums over a padded copy of a plane.
##
##   t[n, o, q] = bias[o] + sum_r s[n, o / targets, (q * step + r * tap_step + shift) / divisor] f[o, r]
##
##            pitch                 A work-item computes a band of rows of a plane.  The rows of s that it reads are
##    0 0 0 0 0 0 0 0               copied between zeros.  The result at (q1, q2) is place i = q1 * pitch + q2.  A tap
##    0 s s s s s s 0               reads element i + d of the copy, where d depends on the tap only.  So there are no
##    0 s s s s s s 0               edges; the sums of places between rows are computed and not stored.
##
## With stride 2 along an axis, even rows (or columns) have one copy and odd ones another, `phase` elements apart.  With
## divisor 2 along an axis, a place has two results there, an even one and an odd one, and a tap is read by one of them.
##
## Arguments: see _axes; a plane is an image's channel.  Item: image n, channel o, and a band of `lines` rows of places.
## places1, places2: places along axes 1 and 2.  low1, low2: the lowest position that a tap reads for place 0.
## rows_of_taps: rows that one place reads.  inside: how many elements of a row of s are copied.  copied: how many
## elements all copies have, which are set to 0 before.
##
## elem     element                       taps   taps along axes 1 and 2        V      numbers of a vector
## steps, divisors   of these axes        size   numbers of the copy, and of `sums`
## vectors_at_once   vectors of sums in registers   remainders   by axis and tap: index % divisor of its results
## read, stored      elements of the vectors in which rows of s are read and rows of t are stored: at most a row's
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, real, all_taps = elem.name, elem.real, [(a, b) for a in range(taps[0]) for b in range(taps[1])]
def stored_sums(v, half):
    """V adjacent results of vector v of places: its sums, or half of those of two remainders by turns."""
    if divisors[1] == 1: return f"sum0_{v}"
    at = range(half * V // 2, (half + 1) * V // 2)
    return f"({real}{V})({', '.join(f'sum0_{v}.s{i:x}, sum1_{v}.s{i:x}' for i in at)})"
%>
${element.scalar(elem)}
% for n in sorted({read, stored} - {1}):
${element.vector_load(elem, n, False)}
% endfor
% for n in sorted({stored} - {1}):
${element.vector_store(elem, n, False)}
% endfor
% for n in sorted({read, read // 2, stored, V} - {0, 1}):
typedef ${real}${n} unaligned${n}_t __attribute__((aligned(${8 if real == "double" else 4})));
% endfor
## An expression: a vector of n numbers at an address, which is aligned to a number only.
<%def name="unaligned(address, n)">${f"*(unaligned{n}_t *)({address})" if n > 1 else f"*({address})"}</%def>

__kernel ${space.attribute()}
void ${kernel("planes")}
{
## This opens the block of an item, which the last brace but one closes.
${space.items("long")}\
${space.coordinates(f"({I})item", [("n", "batch"), ("o", f"({I})channels"), ("band", f"({I})bands")], I)}\
    const ${I} group = o / (${I})targets;
    const long first = band * lines, count = min(lines, places1 - first);
    __global const ${E}_t *const plane = s + s_offset + n * s_batch + group * s_channel;
    __global const ${E}_t *const filter = f + f_offset + group * f_group + (o - group * targets) * f_out;
    __global ${E}_t *const result = t + t_offset + n * t_batch + o * t_channel + first * ${divisors[0]} * t_axis1;
    ${real} copy[${size}] __attribute__((aligned(64))), sums[${size}] __attribute__((aligned(64)));
    for (long i = 0; i < copied; i += ${V})
        ${unaligned("copy + i", V)} = (${real}${V})(0);
    const long left = max(-low2, 0L), from = max(low2, 0L), last = inside - ${read};
    for (long row = 0; row < (count - 1) * ${steps[0]} + rows_of_taps; row++) {
## Steps are 1 or 2, and rows are not negative: & and >> stand for % and /, which are slower for signed numbers.
        const long p1 = first * ${steps[0]} + low1 + row;
        const long at = (row & ${steps[0] - 1}) * phase + (row >> ${steps[0] - 1}) * pitch;
        if (p1 < 0 || p1 >= s1_size) continue;
        __global const ${E}_t *source_row = plane + p1 * s_axis1 + from;
        for (long i = 0; i < inside; i += ${read}) {
            const long begin = min(i, last), column = left + begin;
            const ${real}${read if read > 1 else ""} v = ${E}_load${read if read > 1 else ""}(source_row + begin);
% if steps[1] == 1:
            ${unaligned("copy + at + column", read)} = v;
% else:
% for n, part in enumerate((".even", ".odd") if read > 1 else ("",)):
            const long column${n} = column + ${n};
            const long to${n} = at + (column${n} & 1) * ${steps[0]} * phase + (column${n} >> 1);
            ${unaligned(f"copy + to{n}", read // 2 or 1)} = v${part};
% endfor
% endif
        }
    }
    const ${real} start = adds_bias ? ${E}_load(bias + bias_offset + o * bias_step) : 0;
% for a, b in all_taps:
    const ${real} w${a}_${b} = ${E}_load(filter + ${a} * f_axis1 + ${b} * f_axis2);
% endfor
    // The distances of each row and column of taps from the lowest position in s.
% for axis, name in ((1, "tap_row"), (2, "tap_column")):
% for r, remainder in enumerate(remainders[axis - 1]):
    const long ${name}${r} = (${remainder} + ${r} * tap_step${axis} + shift${axis}) / ${divisors[axis - 1]}
        - low${axis};
% endfor
% endfor
% for a, b in all_taps:
    const ${real} *const from${a}_${b} = copy + tap_row${a} / ${steps[0]} * pitch + tap_column${b} / ${steps[1]}
        + (tap_column${b} % ${steps[1]} * ${steps[0]} + tap_row${a} % ${steps[0]}) * phase;
% endfor
% for row in range(divisors[0]):
    for (long i = 0; i < (count - 1) * pitch + places2; i += ${vectors_at_once * V}) {
% for column in range(divisors[1]):
        ${real}${V} ${", ".join(f"sum{column}_{v} = start" for v in range(vectors_at_once))};
% for a, b in all_taps:
% for v in range(vectors_at_once if (remainders[0][a], remainders[1][b]) == (row, column) else 0):
        sum${column}_${v} += ${unaligned(f"from{a}_{b} + i + {v * V}", V)} * w${a}_${b};
% endfor
% endfor
% endfor
% for v in range(vectors_at_once):
% for half in range(divisors[1]):
        ${unaligned(f"sums + {divisors[1]} * (i + {v * V}) + {half * V}", V)} = ${stored_sums(v, half)};
% endfor
% endfor
    }
    for (long row = 0; row < min(count, (t1_size - ${row} + ${divisors[0] - 1}) / ${divisors[0]} - first); row++)
        for (long i = 0; i < t2_size; i += ${stored}) {
            const long begin = min(i, t2_size - ${stored});
            ${E}_store${stored if stored > 1 else ""}(result + (row * ${divisors[0]} + ${row}) * t_axis1 + begin,
                ${unaligned(f"sums + row * {divisors[1]} * pitch + begin", stored)});
        }
% endfor
    }
}
