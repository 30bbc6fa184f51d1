## Elementary functions of complex numbers that expressions call, defined after those of complex.cl.mako, where
## `helpers` is explained.  Where no special case is written here, infinities and NaN give what the formula gives, which
## is mostly what annex G of C99 says.
% for name, ctype, _ in helpers:
${getattr(self, name)(ctype)}
% endfor

## The head of a function of one number.
<%def name="unary(name, t)">static inline ${t}2 complex_${name}__${t}(${t}2 a)</%def>

## exp(x) (cos y + i sin y).  If x is large, exp(x) may overflow where exp(x) cos(y) does not; then cos(y) is multiplied
## by exp(x / 2) twice.  80 and 700 are below the logarithms of the largest float and double, 88.7 and 709.8.
<%def name="complex_exp(t)">
${unary("exp", t)}
{
    if (isinf(a.x) && !isfinite(a.y)) return a.x < 0 ? (${t}2)(0, 0) : (${t}2)(a.x, (${t})NAN);
    const bool is_large = a.x > ${80 if t == "float" else 700};
    const ${t} half_power = is_large ? exp(a.x * (${t})0.5) : 1, size = is_large ? half_power : exp(a.x);
    if (a.y == 0) return (${t}2)(size * half_power, a.y);
    return (${t}2)(size * cos(a.y) * half_power, size * sin(a.y) * half_power);
}
</%def>

## log |a| + i arg(a).  Near |a| = 1, log |a| is half of log1p(|a|^2 - 1), without cancellation.
<%def name="complex_log(t)">
${unary("log", t)}
{
    const ${t} size = hypot(a.x, a.y), larger = fmax(fabs(a.x), fabs(a.y)), smaller = fmin(fabs(a.x), fabs(a.y));
    const bool is_near = size > (${t})0.5 && size < 2;
    const ${t} real = is_near ? (${t})0.5 * log1p((larger - 1) * (larger + 1) + smaller * smaller) : log(size);
    return (${t}2)(real, atan2(a.y, a.x));
}
</%def>

## The square root with x >= 0, by the algorithm of FreeBSD's csqrt.  Numbers near the ends of the
## range are multiplied by a power of four (`factor`), and their root by the root of its reciprocal (`root_factor`), so
## that nothing overflows or loses bits.
<%def name="complex_sqrt(t)">
${unary("sqrt", t)}
{
    if (a.x == 0 && a.y == 0) return (${t}2)(0, a.y);
    if (isinf(a.y)) return (${t}2)((${t})INFINITY, a.y);
    if (isinf(a.x)) {
        const ${t} zero_or_nan = a.y - a.y;
        return a.x < 0 ? (${t}2)(fabs(zero_or_nan), copysign(a.x, a.y)) : (${t}2)(a.x, copysign(zero_or_nan, a.y));
    }
    const bool is_large = fmax(fabs(a.x), fabs(a.y)) > ${"1e38f" if t == "float" else "1e307"};
    const bool is_small = fmax(fabs(a.x), fabs(a.y)) < ${"1e-36f" if t == "float" else "1e-305"};
    const ${t} factor = is_large ? (${t})0.25 : is_small ? ${"0x1p48f" if t == "float" else "0x1p108"} : 1;
    const ${t} root_factor = is_large ? 2 : is_small ? ${"0x1p-24f" if t == "float" else "0x1p-54"} : 1;
    const ${t}2 z = a * factor;
    const ${t} root = sqrt((fabs(z.x) + hypot(z.x, z.y)) * (${t})0.5), other = fabs(z.y) / (2 * root);
    return root_factor * (z.x >= 0 ? (${t}2)(root, copysign(other, z.y)) : (${t}2)(other, copysign(root, z.y)));
}
</%def>

<%def name="complex_sinh(t)">
${unary("sinh", t)} { return (${t}2)(sinh(a.x) * cos(a.y), a.y == 0 ? a.y : cosh(a.x) * sin(a.y)); }
</%def>
<%def name="complex_cosh(t)">
${unary("cosh", t)} { return (${t}2)(cosh(a.x) * cos(a.y), a.y == 0 ? a.x * a.y : sinh(a.x) * sin(a.y)); }
</%def>
<%def name="complex_sin(t)">
${unary("sin", t)} { return (${t}2)(a.x == 0 ? a.x : sin(a.x) * cosh(a.y), cos(a.x) * sinh(a.y)); }
</%def>
<%def name="complex_cos(t)">
${unary("cos", t)} { return (${t}2)(cos(a.x) * cosh(a.y), a.y == 0 ? -a.x * a.y : -sin(a.x) * sinh(a.y)); }
</%def>

## By Kahan, "Branch cuts for complex elementary functions", 1987.  Beyond |x| = 10 (22) the real part rounds to 1.
<%def name="complex_tanh(t)">
${unary("tanh", t)}
{
    if (fabs(a.x) > ${10 if t == "float" else 22})
        return (${t}2)(copysign((${t})1, a.x), isfinite(a.y) ? 4 * sin(a.y) * cos(a.y) * exp(-2 * fabs(a.x)) : 0);
    const ${t} tangent = tan(a.y), beta = 1 + tangent * tangent, s = sinh(a.x), rho = sqrt(1 + s * s);
    const ${t} denominator = 1 + beta * s * s;
    return (${t}2)(beta * rho * s / denominator, tangent / denominator);
}
</%def>
## tan(z) = -i tanh(iz)
<%def name="complex_tan(t)">
${unary("tan", t)}
{
    const ${t}2 rotated = complex_tanh__${t}((${t}2)(-a.y, a.x));
    return (${t}2)(rotated.y, -rotated.x);
}
</%def>

## a^b, as in NumPy: by repeated squaring for integers b of |b| < 100, else exp(b log a).  For b = 1, 2 and 3 nothing is
## multiplied by 1 + 0i, which would turn infinities into NaN.
<%def name="complex_power(t)">
static inline ${t}2 complex_power__${t}(${t}2 a, ${t}2 b)
{
    if (b.x == 0 && b.y == 0) return (${t}2)(1, 0);
    if (a.x == 0 && a.y == 0) return b.x > 0 ? (${t}2)(0, 0) : (${t}2)((${t})NAN, (${t})NAN);
    if (b.y == 0 && fabs(b.x) < 100 && b.x == trunc(b.x)) {
        if (b.x == 1) return a;
        if (b.x == 2 || b.x == 3) {
            const ${t}2 square = complex_multiply__${t}(a, a);
            return b.x == 2 ? square : complex_multiply__${t}(a, square);
        }
        ${t}2 result = (${t}2)(1, 0), base = a;
        for (int rest = (int)fabs(b.x); rest; rest >>= 1) {
            if (rest & 1) result = complex_multiply__${t}(result, base);
            if (rest > 1) base = complex_multiply__${t}(base, base);
        }
        return b.x < 0 ? complex_divide__${t}((${t}2)(1, 0), result) : result;
    }
    return complex_exp__${t}(complex_multiply__${t}(b, complex_log__${t}(a)));
}
</%def>
