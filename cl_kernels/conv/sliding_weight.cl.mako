## The gradient of a depthwise convolution along two axes by its weights, by work-items that go down the rows.
##
##   f[k, r] = sum_{n, q} t[n, k, q] s[n, k / targets, q * step + r * tap_step + shift]
##
## A work-item has all taps of `wide` channels, and V neighbours of the rows of a band.  A step loads the next row of t
## and the rows of s that no step before it has loaded, each element once, and adds the products of these with the last
## `ahead` rows of t.
##
##   places   | part 0 | part 1 | ...      M = G / lanes work-items of the group share the places of a channel;
##            |0 1 .. M|0 1 .. M|          it has lanes * wide channels.  A place is a band of rows of V neighbours.
##
## The group adds its work-items' sums in local memory, those of `at_once` taps at a time.  The last group of a block to
## finish adds the parts in order, so the result does not depend on which group is last.
##
## elem, I   element; type of indices             order    the coordinates of a place, the fastest last
## G, lanes  work-items, and lanes side by side   wide     adjacent channels of a work-item
## V         places of t of a step                strip    the Strip of V places
## rows      the SlidingRows of s: `ahead` steps    at_once  taps whose sums are added at the same time
##           read the same row                     chunks   loads of s, see _sliding; of_t: those of t
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="sliding" file="/conv/_sliding.cl.mako"/>
<%namespace name="row" file="/conv/_row.cl.mako"/>
<%namespace name="sums" file="/conv/_sums.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, real, vector = elem.name, elem.real, row.module.vector
fresh, ahead, of_taps = rows.fresh, rows.ahead, rows.strip
taps = (1, of_taps.taps, strip.taps)
T, M, pitch = of_taps.taps * strip.taps, G // lanes, lanes * wide
newest = of_taps.loads[-1] + 1
loaded = range(max(0, newest - fresh), newest)
words = fix_up.module.words(real)
%>
${element.scalar(elem)}
% for width in sorted({wide, *(count * wide for _, count in [*chunks, *of_t])} - {1}):
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
${space.digits("place", order, I)}\
        const ${I} q = block_of_row * ${V}, from = q * ${strip.step} + shift2;
        const ${I} first = band * steps, stop = min(first + steps, t1_size);
        __global const ${E}_t *const sn = s + n * s_batch, *const tn = t + n * t_batch;
${sliding.ranges(chunks, I)}\
${sliding.ranges(of_t, I, "t", "q")}\
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
${sliding.load(elem, of_t, wide, I, "new", "at1", "at1 >= first && at1 < stop", "t", "tn")}\
% for v in range(V):
            y${ahead - 1}_${v} = new${v};
% endfor
% for l in loaded:
${sliding.load(elem, chunks, wide, I, f"x{l}_", f"(window + {l})", f"window + {l} >= 0 && window + {l} < s1_size",
    plane="sn")}\
% endfor
% for l in loaded:
% for a in range(ahead):
% for r in (r for r in range(of_taps.taps) if of_taps.reads[r][0] == l - a * fresh):
% for c, places in enumerate(strip.reads):
% for v, j in enumerate(places):
            sum${r * strip.taps + c} += x${l}_${j} * y${a}_${v};
% endfor
% endfor
% endfor
% endfor
% endfor
        }
    }
% for begin in range(0, T, at_once):
<% of_round = range(begin, min(T, begin + at_once)) %>\
% for tap in of_round:
    shared[${(tap - begin) * G} + lid] = sum${tap};
% endfor
    for (uint left = ${M}; left > 1; left = (left + 1) / 2) {  // work-items of a channel whose sums are left
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < left / 2 * ${lanes}u) {
            const uint other = lid + (left + 1) / 2 * ${lanes}u;
% for tap in of_round:
            shared[${(tap - begin) * G} + lid] += shared[${(tap - begin) * G} + other];
% endfor
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint w = lid; w < ${len(of_round) * pitch}u; w += ${G}u)
        scratch[${begin * pitch} + w] =
            ((__local const ${real} *)shared)[w / ${pitch}u * ${G * wide}u + w % ${pitch}u];
    barrier(CLK_LOCAL_MEM_FENCE);
% endfor
${sums.put(taps, (0, 0, 0), pitch, words)}\
}
