## Functions of single values for the kernels on matrix units, by NVIDIA's instructions (PTX ISA).  kind: f16 or bf16.
<%def name="define(kind)">
// The value `first_own` of the lane whose number is this lane's XOR distance.
static inline uint exchanged(uint first_own, uint distance)
{
    uint theirs;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(theirs) : "r"(first_own), "r"(distance));
    return theirs;
}
static inline float across(float x, uint distance) { return as_float(exchanged(as_uint(x), distance)); }
// 2^x, with a relative error of some 2^-22; subnormal results are 0.
static inline float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static inline float binary_logarithm(float x)
{
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Both numbers rounded to 16 bits, `low` in the low half.
static inline uint rounded_pair(float low, float high)
{
    uint pair;
    asm("cvt.rn.${kind}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
// Hide the value of x from the compiler, so that it computes what follows from x again after this, instead of keeping
// the results in registers over the loop.
#define HIDE_VALUE(kind, x) asm volatile("" : kind(x))
</%def>
