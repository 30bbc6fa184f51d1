## Vectors of V lanes for fft/cpu: their types, their loads and stores, and the transposition of V vectors.
##
##   types(real, V)     real_t, vec_t, load and store of V numbers, and of V complex ones as two vectors
##   transpose(real, V) transpose(r): r[i], a row of V numbers, becomes a column
<%def name="types(real, V)">
typedef ${real.real} real_t;
typedef ${real.real}${V} vec_t;
typedef ${real.real}${V} vec_in_memory_t __attribute__((aligned(${real.itemsize})));
typedef ${real.real}${2 * V} pairs_t;
typedef ${real.real}${2 * V} pairs_in_memory_t __attribute__((aligned(${real.itemsize})));
// An order table has the radices of the stages, and from this index on `place`: the row of scratch that has result k.
#define ORDER_AT 64

// min() without a call: PoCL does not inline min(), and a call in a loop saves all vector registers to memory.
static inline long minimum(long a, long b)
{
    return a < b ? a : b;
}

static inline vec_t load(__global const real_t *p)
{
    return *(__global const vec_in_memory_t *)p;
}

static inline void load_complex(__global const real_t *p, vec_t *re, vec_t *im)
{
    const pairs_t v = *(__global const pairs_in_memory_t *)p;
    *re = v.even, *im = v.odd;
}

static inline void store_real(__global real_t *p, vec_t v)
{
    *(__global vec_in_memory_t *)p = v;
}

static inline void store_complex(__global real_t *p, vec_t re, vec_t im)
{
    pairs_t v;
    v.even = re, v.odd = im;
    *(__global pairs_in_memory_t *)p = v;
}
</%def>

<%def name="transpose(real, V)"><%
    instructions = {16: "SSE2", 32: "AVX", 64: "AVX512F"}.get(V * real.itemsize, "NONE")
    # The lanes of the low and of the high half of two interleaved vectors.
    halves = [[j for lane in range(start, start + V // 2) for j in (lane, V + lane)] for start in (0, V // 2)]
%>
// Without OPAQUE the compiler combines shuffles: that takes a quarter of the time of compilation and saves no
// instruction.
#ifdef __${instructions}__
#define OPAQUE(v) __asm__("" : "+v"(v))
#else
#define OPAQUE(v)
#endif

// Each of ${V.bit_length() - 1} steps interleaves rows i and i + ${V // 2} of all vectors.
static inline __attribute__((always_inline)) void transpose(vec_t *r)
{
    vec_t mixed[${V}];
% for _ in range(V.bit_length() - 1):
% for i in range(V // 2):
% for half in (0, 1):
    mixed[${2 * i + half}] = __builtin_shufflevector(r[${i}], r[${i + V // 2}], ${", ".join(map(str, halves[half]))});
    OPAQUE(mixed[${2 * i + half}]);
% endfor
% endfor
% for i in range(V):
    r[${i}] = mixed[${i}];
% endfor
% endfor
}
</%def>
