## The end of conv/weight: a group's sums go to the gradient, or to the workspace if several groups share its places;
## the last of these adds the parts in their order.
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>

## T: taps of a group.  pitch: from the sums of a tap to those of the next, in `scratch`.  words: 32-bit words of a sum.
<%def name="put(T, pitch, words)"><%
E, real = elem.name, elem.real
own = f"scratch[w / {lanes * wide}u * {pitch} + w % {lanes * wide}u]"
%>\
    // Word w of a part belongs to tap w / (lanes * wide) of pair w % (lanes * wide).
    volatile __global uint *own = (volatile __global uint *)partial
        + (size_t)block * parts * ${T * lanes * wide * words};
    if (parts > 1) {
        volatile __global uint *to = own + part * ${T * lanes * wide * words};
        for (uint w = lid; w < ${T * lanes * wide}u; w += ${G})
            ${fix_up.publish(real, f"to + w * {words}", own)}
${fix_up.arrive("counters + block", "parts", "lid == 0")}\
        if (!is_last) return;
    }
    for (uint w = lid; w < ${T * lanes * wide}u; w += ${G}) {
        const uint tap = w / ${lanes * wide}u, l = w % ${lanes * wide}u;
        ${real} total = 0;
        if (parts > 1)
            for (${I} i = 0; i < parts; i++)
                total += ${fix_up.collect(real, f"own + (i * {T * lanes * wide} + w) * {words}")};
        else
            total = scratch[tap * ${pitch} + l];
        const ${I} its = min(first_pair, pairs - ${wide}) + l, a = tap0 + tap / ${taps[1] * taps[2]}u;
        const ${I} b = tap1 + tap / ${taps[2]}u % ${taps[1]}u, c = tap2 + tap % ${taps[2]}u;
        if (its < pairs)
            ${E}_store(f + f_offset + its / sources * f_out + its % sources * f_in
                + a * f_axis0 + b * f_axis1 + c * f_axis2, total);
    }
</%def>
