## Dropout of the probabilities of attention.  The mask is the one that random/dropout has for an array of (batch,
## heads, queries, keys) in C order.  It is not stored; the gradients compute it again.
<%namespace name="philox" file="/random/_philox.cl.mako"/>

## Define, at file scope, the function DROPOUT_FACTOR: 0 if the probability at position `at` of the array is dropped,
## else `rescale`, which is 1 / (1 - rate).  threshold: rate * 2^32; stream, seed: of the random numbers.
<%def name="define(real)">
${philox.define()}
static inline ${real} DROPOUT_FACTOR(ulong at, ulong threshold, ${real} rescale, ulong stream, ulong seed)
{
    const uint4 words = PHILOX_block(at >> 2, stream, seed);  // four positions share a block
    const uint2 pair = at & 2 ? words.zw : words.xy;
    return (at & 1 ? pair.y : pair.x) < threshold ? 0 : rescale;
}
</%def>

## An expression for the factor of query i and key n of head h of batch b, which are variables of the caller, as are the
## extents heads, queries and keys and the other arguments.
<%def name="factor()">DROPOUT_FACTOR((((ulong)b * heads + h) * queries + i) * keys + n,
                        threshold, rescale, stream, seed)</%def>
