## exponential: EXP(x) = e^x of vectors on a CPU.  A built-in function would be a call, which stores every register.
##
##   x = n log(2) + r, |r| <= log(2) / 2;   e^x = 2^n P(r)
##
## P is Taylor's polynomial of degree 7 (13 for double), whose error is below 2^-27 (2^-57).  The error of the result
## is below 1.5 ulp.
##
## larger(real, width): LARGER(x, y), the larger one; it is x if y is NaN, and NaN if x is NaN.
## define(real, width): EXP(x) of vectors of `width` floats (doubles), x up to 88 (709).  For x below -87 (-708),
## where results are near the least normal number, it is 0.
<%def name="define(real, width)"><%
    from math import factorial
    double = real == "double"
    T, I = vector(real, width), vector("long" if double else "int", width)
    degree, f = (13, "") if double else (7, "f")
    # The bits of the fraction, and the bias of the exponent.
    bits, bias = (52, 1023) if double else (23, 127)
    magic = "6755399441055744.0" if double else "12582912.0f"  # 1.5 * 2^bits: sums are rounded to integers
    # log(2) in two parts: n * high is exact
    high, low = ("0x1.62e42feep-1", "0x1.a39ef35793c76p-33") if double else ("0x1.62e4p-1f", "0x1.7f7d1cp-20f")
%>
static inline ${T} __attribute__((overloadable)) EXP(${T} x)
{
    const ${T} shifted = x * 1.4426950408889634${f} + ${magic};
    const ${T} n = shifted - ${magic};
    const ${T} r = (x - n * ${high}) - n * ${low};
    ${T} p = ${1 / factorial(degree)}${f};
% for k in reversed(range(degree)):
    p = p * r + ${1 / factorial(k)}${f};
% endfor
    p *= as_${T}((as_${I}(shifted) << ${bits}) + ${bias << bits});
    return x < ${"-708.0" if double else "-87.0f"} ? 0 : p;
}
</%def>

<%def name="larger(real, width)"><% T = vector(real, width) %>\
static inline ${T} __attribute__((overloadable)) LARGER(${T} x, ${T} y) { return y > x ? y : x; }
</%def>
