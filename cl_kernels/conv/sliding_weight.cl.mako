## sliding_weight: on a GPU, the gradient by its weights of a depthwise convolution along two axes.  Arguments: see
## _axes.
##
##   f[k, r] = sum_{n, q} t[n, k, q] s[n, k / targets, q * step + r * tap_step + shift]
##
## q: a place of t, the gradient of y.  k: a channel of t; `targets` of them have the same channel of s, which is x.
##
## A work-item has the sums of all taps of `wide` channels, and a place: V neighbours in each row of a band of t.  It
## advances from row to row.  A step loads a row of t, and the `fresh` rows of s that no earlier step has loaded.  It
## adds the products of these rows of s with the last `ahead` rows of t, which are in registers: y0_* is the oldest.
##
##   places   | part 0 | part 1 | ...      A group has lanes * wide channels, and one part of the places, which
##            |0 1 .. M|0 1 .. M|          M = G / lanes work-items of each lane share.
##
## The group adds its work-items' sums in local memory, those of `at_once` taps at a time.  The last group of a block to
## finish adds the parts in order, so the result does not depend on which group is last.
##
## G, lanes  work-items, and lanes side by side   wide     adjacent channels of a work-item
## V         neighbours of a place                row_taps the AxisTaps of V neighbours along a row
## rows      the SlidingRows of s                 at_once  taps whose sums are added at the same time
## chunks    loads of a row of s, see _sliding    t_chunks loads of a row of t
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="sliding" file="/conv/_sliding.cl.mako"/>
<%namespace name="row" file="/conv/_row.cl.mako"/>
<%namespace name="sums" file="/conv/_sums.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, real, vector = elem.name, elem.real, row.module.vector
fresh, ahead, column_taps = rows.fresh, rows.ahead, rows.column_taps
taps = (1, column_taps.taps, row_taps.taps)
T, M, pitch = column_taps.taps * row_taps.taps, G // lanes, lanes * wide
end_of_window = column_taps.loads[-1] + 1
loaded = range(max(0, end_of_window - fresh), end_of_window)  # rows of s, counted from `window`
words = fix_up.module.words(real)
%>
${element.scalar(elem)}
% for width in sorted({wide, *(count * wide for _, count in [*chunks, *t_chunks])} - {1}):
${element.vector_load(elem, width, True)}
% endfor
typedef ${vector(real, wide)} sum_t;
${fix_up.define()}

__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("sliding_weight")}
{
    __local sum_t shared[${at_once * G}];
    __local ${real} scratch[${T * pitch}];
    __local uint is_last;
    const uint lid = get_local_id(0), lane = lid % ${lanes}u, number = get_group_id(0);
    const ${I} part = number % parts, block = number / parts, first_pair = block * ${pitch};
    const ${I} k = min(first_pair + (${I})lane * ${wide}, pairs - ${wide});
    s += s_offset + k / targets * s_channel;
    t += t_offset + k * t_channel;
% for tap in range(T):
    sum_t sum${tap} = (sum_t)(0);
% endfor
    const ${I} end = min((part + 1) * part_size, places);
    for (${I} place = part * part_size + lid / ${lanes}u; place < end; place += ${M}) {
${space.coordinates("place", order, I)}\
        const ${I} q = block_of_row * ${V}, from = q * ${row_taps.step} + shift2;
        const ${I} first = band * steps, stop = min(first + steps, t1_size);
        __global const ${E}_t *const sn = s + n * s_batch, *const tn = t + n * t_batch;
${sliding.ranges(chunks, I)}\
${sliding.ranges(t_chunks, I, "t", "q")}\
% for v in range(V):
        sum_t ${", ".join(f"y{a}_{v} = (sum_t)(0)" for a in range(ahead))};
% endfor
        for (${I} step = first - ${ahead - 1}; step < stop; step++) {
            const ${I} window = step * ${fresh} + shift1, at1 = step + ${ahead - 1};
% for a in range(ahead - 1):
% for v in range(V):
            y${a}_${v} = y${a + 1}_${v};
% endfor
% endfor
${sliding.load(elem, t_chunks, wide, I, "new", "at1", "at1 >= first && at1 < stop", "t", "tn")}\
% for v in range(V):
            y${ahead - 1}_${v} = new${v};
% endfor
% for l in loaded:
${sliding.load(elem, chunks, wide, I, f"x{l}_", f"(window + {l})", f"window + {l} >= 0 && window + {l} < s1_size",
    plane="sn")}\
% endfor
% for l in loaded:
% for a in range(ahead):
% for r in (r for r in range(column_taps.taps) if column_taps.reads[r][0] == l - a * fresh):
% for c, places in enumerate(row_taps.reads):
% for v, j in enumerate(places):
            sum${r * row_taps.taps + c} += x${l}_${j} * y${a}_${v};
% endfor
% endfor
% endfor
% endfor
% endfor
        }
    }
% for begin in range(0, T, at_once):
<% round_taps = range(begin, min(T, begin + at_once)) %>\
% for tap in round_taps:
    shared[${(tap - begin) * G} + lid] = sum${tap};
% endfor
    for (uint count = ${M}; count > 1; count = (count + 1) / 2) {  // work-items of a lane that still have sums
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < count / 2 * ${lanes}u) {
            const uint other = lid + (count + 1) / 2 * ${lanes}u;
% for tap in round_taps:
            shared[${(tap - begin) * G} + lid] += shared[${(tap - begin) * G} + other];
% endfor
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint w = lid; w < ${len(round_taps) * pitch}u; w += ${G}u)
        scratch[${begin * pitch} + w] =
            ((__local const ${real} *)shared)[w / ${pitch}u * ${G * wide}u + w % ${pitch}u];
    barrier(CLK_LOCAL_MEM_FENCE);
% endfor
${sums.store(taps, (0, 0, 0), pitch, words)}\
}
