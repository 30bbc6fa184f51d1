## Complex numbers as pairs (re, im), for fft/group.
##
##   types(real)     real_t, pair_t, vec_t, and functions of pairs.  Pairs in memory are aligned to their size; on a CPU
##                   only to a real number, because they may be in an array of NumPy.
##   roots()         root_of(power, ...): exp(-2 pi i power / twiddle_length), the product of a root of the coarse table
##                   and one of the fine table; the lower `shift` bits of power are the index into the fine table
<%def name="types(real)">
<% nbytes = real.itemsize if target.facts.type == "cpu" else 2 * real.itemsize %>
typedef ${real.real} real_t;
typedef real_t vec_t;
typedef ${real.real}2 pair_t;
typedef pair_t pair_in_memory_t __attribute__((aligned(${nbytes})));

static inline pair_t product(pair_t a, pair_t b)
{
    return (pair_t)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// v, or its conjugate if sign is -1.
static inline pair_t with_sign(pair_t v, real_t sign)
{
    return (pair_t)(v.x, v.y * sign);
}

// v, or v with its real and imaginary parts exchanged if sign is -1: the transform with positive exponents is computed
// by the one with negative exponents, of exchanged numbers.
static inline pair_t exchanged(pair_t v, real_t sign)
{
    return sign < 0 ? v.yx : v;
}

// The number of elements from index i on, if there are `count` in all; 0 beyond them.
static inline uint remaining(uint i, uint count)
{
    return count - min(i, count);
}

static inline pair_t conjugate_if(pair_t v, bool condition)
{
    return (pair_t)(v.x, condition ? -v.y : v.y);
}
</%def>

<%def name="roots()">
static inline pair_t root_of(ulong power, __global const pair_t *coarse, __global const pair_t *fine, int shift)
{
    return product(coarse[power >> shift], fine[power & ((1ul << shift) - 1)]);
}
</%def>
