## The end of weight, sliding_weight and cpu_weight: a group's sums go from `scratch` to the gradient f.  If `parts`
## groups share the places, they go to the workspace `partial`, and the last group of the block adds the parts in their
## order.
##
##   scratch    [tap][pair l]    `pitch` numbers a tap: the first lanes * wide are the sums of the group's pairs
##   partial    [block][part][tap][pair l]    lanes * wide sums a tap, each of `words` 32-bit words
##
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%! AHEAD = 16 %>

## taps, first: taps of a group along each axis, and its first ones.  pair: C expression of the number k * sources + c
## of pair l of the group, a channel k of t and one, c, of s.  counters: one for each block, see group/fix_up.  part,
## block: of this group.  In scope: lid, the local id; G, lanes, wide: see the kernels.
<%def name="put(taps, first, pitch, words, pair=None)"><%
pair = pair or f"min(first_pair, pairs - {wide}) + l"
T = taps[0] * taps[1] * taps[2]
E, real = elem.name, elem.real
scratched = f"scratch[w / {lanes * wide}u * {pitch} + w % {lanes * wide}u]"
%>\
    // Sum w of a part belongs to tap w / (lanes * wide) of pair w % (lanes * wide).
    volatile __global uint *own = (volatile __global uint *)partial
        + (size_t)block * parts * ${T * lanes * wide * words};
    volatile __global uint *to = own + part * ${T * lanes * wide * words};
    for (uint w = lid; w < ${T * lanes * wide}u && parts > 1; w += ${G})
        ${fix_up.publish(real, f"to + w * {words}", scratched)}
    // No barrier is in a branch: PoCL 3.0 ran a loop of some work-items, which followed one, for all of the group.
    if (lid == 0) is_last = true;
${fix_up.arrive("counters + block", "parts", "lid == 0 && parts > 1", **({"wait": ""} if G == 1 else {}))}\
    for (uint w = lid; w < ${T * lanes * wide}u && is_last; w += ${G}) {
        const uint tap = w / ${lanes * wide}u, l = w % ${lanes * wide}u;
        ${real} total = 0;
        if (parts > 1)
% if target.is_cpu:
            for (${I} i = 0; i < parts; i++)
                total += ${fix_up.collect(real, f"own + (i * {T * lanes * wide} + w) * {words}")};
% else:
            for (${I} i = 0; i < parts; i += ${AHEAD}) {  // ${AHEAD} loads are in flight
% for u in range(AHEAD):
                const ${real} part${u} =
                    ${fix_up.collect(real, f"own + (min(i + {u}, parts - 1) * {T * lanes * wide} + w) * {words}")};
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
