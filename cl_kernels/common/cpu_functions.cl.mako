## cpu_functions: exp, expm1, tanh, log1p, erfc and fabs of float32 on CPUs, for single values and vectors.  They are
## inlined: a call of a built-in function makes the compiler store every register, and PoCL computes erfc and tanh of a
## vector element by element.  A value and a vector's element give the same result.  Special values are those of C.
## The last column has the largest errors.  Arguments are clamped where results are 0, 1 or infinite.
##   exp      x = n log(2) + r, |r| <= log(2) / 2:  2^n P(r); 2^n in two factors, for subnormal results          2 ulp
##   expm1    2^n P(r) + (2^n - 1), with P(r) = e^r - 1                                                        3 ulp
##   tanh     t / (t + 2), t = expm1(2 |x|)                                                                    4 ulp
##   log1p    log(u) + (x - (u - 1)) / u, u = 1 + x rounded (Kahan); log(u) = k log(2) + log(m), m about 1     2 ulp
##   erfc     e^(-a^2) Q((a - 2) / (a + 2)) / (1 + 2 a), a = |x| (Shepherd and Laframboise, 1981)              6 ulp
##
## P are Taylor's polynomials, log(m) and Q were fitted at Chebyshev's nodes; their relative errors are below 2^-25.
## define(names, widths): the functions for some widths of vectors (1: single values), and macros of the built-ins'
## names that call them.  T, I: vectors of floats, and of ints of the same width.
<%!
from math import factorial
NEEDED = {"tanh": "expm1", "erfc": "exp"}  # what a function calls
#: Coefficients from the highest power on: of (log(1 + f) - f + f^2 / 2) / f^3, and of Q.
LOGARITHM = (
    0.06674393266439438, -0.11644486337900162, 0.11904002726078033, -0.12411569058895111, 0.1421804428100586,
    -0.16667631268501282, 0.20002195239067078, -0.2500001788139343, 0.3333331048488617,
)
TAIL = (
    -0.00040066096698865294, -0.001224780222401023, 0.0013211355544626713, 0.00862967036664486, -0.00806559156626463,
    -0.05420451983809471, 0.16405659914016724, -0.16603133082389832, -0.09276404976844788, 1.2769783735275269,
)
def horner(x, coefficients):  # C text of the polynomial in x
    text = f"{coefficients[0]!r}f"
    for c in coefficients[1:]: text = f"({text} * {x} + {c!r}f)"
    return text
%>
<%def name="define(names, widths)">\
% for name in dict.fromkeys([*(NEEDED[name] for name in names if name in NEEDED), *names]):
% for width in dict.fromkeys(widths):
${getattr(self, name)(vector("float", width), vector("int", width))}
% endfor
% endfor
% for name in names:
#ifdef cl_khr_fp64
static inline double __attribute__((overloadable)) cpu_${name}(double x) { return ${name}(x); }
#endif
#define ${name} cpu_${name}
% endfor
</%def>

<%def name="head(name, T)">static inline ${T} __attribute__((overloadable)) cpu_${name}</%def>

## Declare n, the integer nearest to x / log(2), and r = x - n log(2), with log(2) in two parts.  The low bits of
## `shifted` are those of n: 1.5 * 2^23 (0x4b400000 as bits) is added, so that the sum is rounded to an integer.
<%def name="reduced(T)">\
    const ${T} shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;  // rounds to an integer
    const ${T} r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
</%def>

<%def name="fabs(T, I)">
${head("fabs", T)}(${T} x) { return as_${T}(as_${I}(x) & 0x7fffffff); }
</%def>

<%def name="exp(T, I)">
## e^(x + rest), |rest| < 0.1.  2^n has two factors: n may be below the least normal exponent.  scalef takes such n.
static inline ${T} __attribute__((overloadable)) cpu_exp_of_sum(${T} x, ${T} rest)
{
    x = x < -150.0f ? -150.0f : x > 89.0f ? 89.0f : x;
${reduced(T)}\
    const ${T} s = r + rest, power = ${horner("s", [1 / factorial(k) for k in range(7, -1, -1)])};
#if ${int(T == "float16")} && defined(__AVX512F__)
    return __builtin_ia32_scalefps512_mask(power, n, (float16)(0), (ushort)-1, 4);
#endif
    const ${I} whole = as_${I}(shifted) - 0x4b400000, part = whole >> 1;
    return power * as_${T}((part + 127) << 23) * as_${T}((whole - part + 127) << 23);
}
${head("exp", T)}(${T} x) { return cpu_exp_of_sum(x, 0); }
</%def>

## half_power: 2^(n - 1), because 2^128 is not a float.  -0.0 stays -0.0.
<%def name="expm1(T, I)">
${head("expm1", T)}(${T} y)
{
    const ${T} x = y < -20.0f ? -20.0f : y > 89.0f ? 89.0f : y;
${reduced(T)}\
    const ${T} p = r + r * r * ${horner("r", [1 / factorial(k) for k in range(8, 1, -1)])};
    const ${T} half_power = as_${T}((as_${I}(shifted) - 0x4b400000 + 126) << 23);
    return y == 0 ? y : 2 * (p * half_power + (half_power - 0.5f));
}
</%def>

<%def name="tanh(T, I)">
${head("tanh", T)}(${T} x)
{
    const ${I} sign = as_${I}(x) & (int)0x80000000;
    ${T} a = as_${T}(as_${I}(x) ^ sign);
    a = a > 10.0f ? 10.0f : a;
    const ${T} t = cpu_expm1(2 * a);
    return as_${T}(as_${I}(t / (t + 2)) | sign);
}
</%def>

<%def name="log1p(T, I)">
${head("log1p", T)}(${T} x)
{
    const ${T} u = 1 + x;
    const ${I} k = (as_${I}(u) - 0x3f3504f3) >> 23;  // bits of sqrt(1/2): u = 2^k m, m from sqrt(1/2) to sqrt(2)
    const ${T} f = as_${T}(as_${I}(u) - (k << 23)) - 1, e = ${"(float)k" if T == "float" else f"CONVERT({T}, k)"};
    const ${T} tail = f * f * f * ${horner("f", LOGARITHM)} + e * 0x1.7f7d1cp-20f;
    ${T} y = (e * 0x1.62e4p-1f + (f + (tail - 0.5f * f * f))) + (x - (u - 1)) / u;
    y = u > 0 ? y : u == 0 ? (${T})(-INFINITY) : (${T})(NAN);
    return x == 0 || x == INFINITY ? x : y;
}
</%def>

<%def name="erfc(T, I)">
${head("erfc", T)}(${T} x)
{
    ${T} a = as_${T}(as_${I}(x) & 0x7fffffff);
    a = a > 11.0f ? 11.0f : a;
    const ${T} q = (a - 2) / (a + 2), near = as_${T}(as_${I}(a) & ~0xfff);  // the square of near is exact
    const ${T} power = cpu_exp_of_sum(-near * near, -(a - near) * (a + near));
    const ${T} y = power * (${horner("q", TAIL)} / (1 + 2 * a));
    return x < 0 ? 2 - y : y;
}
</%def>
