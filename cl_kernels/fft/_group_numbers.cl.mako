## Complex numbers as pairs, of a group's transforms.
##
##   types(real)     real_t, pair_t, vec_t; products of pairs
##   roots()         root_of(p, ...): exp(-2 pi i p / whole), a root of the coarse table times one of the fine one, of which
##                   p has so many bits as `shift` says
<%def name="types(real)">
<% nbytes = real.itemsize if target.facts.type == "cpu" else 2 * real.itemsize %>
typedef ${real.real} real_t;
typedef real_t vec_t;
typedef ${real.real}2 pair_t;
typedef pair_t pair_in_memory_t __attribute__((aligned(${nbytes})));

#if (defined(__NV_CL_C_VERSION) || defined(__NVPTX__)) && CUDA_SM >= 70
#define SHARED_FENCE()
static inline pair_t load_shared(__global const pair_in_memory_t *p)
{
    pair_t v;
    asm volatile("ld.global.cg.v2.${"f64" if real.needs_fp64 else "f32"} {%0, %1}, [%2];" : "=${"d" if real.needs_fp64 else "f"}"(v.x), "=${"d" if real.needs_fp64 else "f"}"(v.y) : "l"(p) : "memory");
    return v;
}
static inline pair_t load_once(__global const pair_in_memory_t *p)
{
    pair_t v;
    asm volatile("ld.global.cs.v2.${"f64" if real.needs_fp64 else "f32"} {%0, %1}, [%2];" : "=${"d" if real.needs_fp64 else "f"}"(v.x), "=${"d" if real.needs_fp64 else "f"}"(v.y) : "l"(p) : "memory");
    return v;
}
static inline real_t load_real_once(__global const real_t *p)
{
    real_t v;
    asm volatile("ld.global.cs.${"f64" if real.needs_fp64 else "f32"} %0, [%1];" : "=${"d" if real.needs_fp64 else "f"}"(v) : "l"(p) : "memory");
    return v;
}
static inline void store_once(__global pair_in_memory_t *p, pair_t v)
{
    asm volatile("st.global.cs.v2.${"f64" if real.needs_fp64 else "f32"} [%0], {%1, %2};" : : "l"(p), "${"d" if real.needs_fp64 else "f"}"(v.x), "${"d" if real.needs_fp64 else "f"}"(v.y) : "memory");
}
#else
#define SHARED_FENCE() DEVICE_FENCE()
#define load_shared(p) (*(p))
#define load_once(p) (*(p))
#define load_real_once(p) (*(p))
#define store_once(p, v) (*(p) = (v))
#endif

static inline pair_t product(pair_t a, pair_t b)
{
    return (pair_t)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

static inline pair_t with_sign(pair_t v, real_t sign)
{
    return (pair_t)(v.x, v.y * sign);
}

// How many of `here` there are from number i on.
static inline uint left(uint i, uint here)
{
    return here - min(i, here);
}

static inline pair_t conjugate_if(pair_t v, bool really)
{
    return (pair_t)(v.x, really ? -v.y : v.y);
}
</%def>

<%def name="roots()">
static inline pair_t root_of(ulong power, __global const pair_t *coarse, __global const pair_t *fine, int shift)
{
    return product(coarse[power >> shift], fine[power & ((1ul << shift) - 1)]);
}
</%def>
