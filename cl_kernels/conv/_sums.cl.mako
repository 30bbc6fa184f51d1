## The end of weight, sliding_weight and cpu_weight: a group's sums go from `scratch` to the gradient f.  If `parts`
## groups share the places, they go to the workspace `partial`, and the last group of the block adds the parts in their
## order.
##
##   scratch    [tap][pair l]    `pitch` numbers a tap: the first lanes * wide are the sums of the group's pairs
##   partial    [block][part][tap][pair l]    lanes * wide sums a tap, each of `words` 32-bit words
##
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%! AHEAD = 16 %>

## taps, first: the number of taps of a group along each axis, and the first of them.  pair: C expression of the number
## k * sources + c of the group's pair l, of channel k of t and channel c of s.  In scope: lid, the local id; part and
## block, of this group; parts; partial; counters, one for each block (group/fix_up).  elem, G, lanes, wide: see the
## kernels.
<%def name="store(taps, first, pitch, words, pair=None)"><%
pair = pair or f"min(first_pair, pairs - {wide}) + l"
T = taps[0] * taps[1] * taps[2]
E, real = elem.name, elem.real
scratched = f"scratch[w / {lanes * wide}u * {pitch} + w % {lanes * wide}u]"
%>\
    // Sum w of a part belongs to tap w / (lanes * wide) of pair w % (lanes * wide).
    volatile __global uint *block_parts = (volatile __global uint *)partial
        + (size_t)block * parts * ${T * lanes * wide * words};
    volatile __global uint *own_part = block_parts + part * ${T * lanes * wide * words};
    for (uint w = lid; w < ${T * lanes * wide}u && parts > 1; w += ${G})
        ${fix_up.publish(real, f"own_part + w * {words}", scratched)}
    // No barrier is in a branch: PoCL 3.0 ran a loop of some work-items, which followed one, for all of the group.
    if (lid == 0) is_last = true;
${fix_up.arrive("counters + block", "parts", "lid == 0 && parts > 1", **({"wait": ""} if G == 1 else {}))}\
    for (uint w = lid; w < ${T * lanes * wide}u && is_last; w += ${G}) {
        const uint tap = w / ${lanes * wide}u, l = w % ${lanes * wide}u;
        ${real} total = 0;
        if (parts > 1)
% if target.is_cpu:
            for (${I} i = 0; i < parts; i++)
                total += ${fix_up.collect(real, f"block_parts + (i * {T * lanes * wide} + w) * {words}")};
% else:
            for (${I} i = 0; i < parts; i += ${AHEAD}) {  // ${AHEAD} loads are in flight
% for u in range(AHEAD):
<% place = f"block_parts + (min(i + {u}, parts - 1) * {T * lanes * wide} + w) * {words}" %>\
                const ${real} part${u} = ${fix_up.collect(real, place)};
% endfor
                total += part0;
% for u in range(1, AHEAD):
                if (i + ${u} < parts) total += part${u};
% endfor
            }
% endif
        else
            total = scratch[tap * ${pitch} + l];
        const ${I} channels_of_l = ${pair}, r0 = ${first[0]} + tap / ${taps[1] * taps[2]}u;
        const ${I} r1 = ${first[1]} + tap / ${taps[2]}u % ${taps[1]}u, r2 = ${first[2]} + tap % ${taps[2]}u;
        if (channels_of_l < pairs)
            ${E}_store(f + f_offset + channels_of_l / sources * f_out + channels_of_l % sources * f_in
                + r0 * f_axis0 + r1 * f_axis1 + r2 * f_axis2, total);
    }
</%def>
