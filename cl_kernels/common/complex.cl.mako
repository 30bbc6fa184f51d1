## Functions of complex numbers that expressions call (portable_gpu/codegen/complex_terms.py), with NumPy's results.
## A complex number x + iy is a vector (x, y) of two components of type t.
##
## helpers: (def, t, 1) for each function; its C name is DEF__t.  A function is listed after those that it calls.
% for name, ctype, _ in helpers:
${getattr(self, name)(ctype)}
% endfor

## The heads of functions of one and of two numbers; result: the C type of the result, if it is not complex.
<%def name="unary(name, t, result='')">static inline ${result or t + "2"} complex_${name}__${t}(${t}2 a)</%def>
<%def name="binary(name, t, result='')">\
static inline ${result or t + "2"} complex_${name}__${t}(${t}2 a, ${t}2 b)</%def>

<%def name="complex_truth(t)">${unary("truth", t, "int")} { return a.x != 0 || a.y != 0; }</%def>
<%def name="complex_equal(t)">${binary("equal", t, "int")} { return a.x == b.x && a.y == b.y; }</%def>
## Complex numbers are ordered by x, then by y; a number with a NaN is not less than another one.
<%def name="complex_less(t)">
${binary("less", t, "int")} { return (a.x < b.x && a.y == a.y && b.y == b.y) || (a.x == b.x && a.y < b.y); }
</%def>
<%def name="complex_less_equal(t)">
${binary("less_equal", t, "int")} { return (a.x < b.x && a.y == a.y && b.y == b.y) || (a.x == b.x && a.y <= b.y); }
</%def>
<%def name="complex_minimum(t)">
${binary("minimum", t)} { return complex_less_equal__${t}(a, b) || a.x != a.x || a.y != a.y ? a : b; }
</%def>
<%def name="complex_maximum(t)">
${binary("maximum", t)} { return complex_less_equal__${t}(b, a) || a.x != a.x || a.y != a.y ? a : b; }
</%def>
<%def name="complex_isnan(t)">${unary("isnan", t, "int")} { return a.x != a.x || a.y != a.y; }</%def>
<%def name="complex_isinf(t)">${unary("isinf", t, "int")} { return isinf(a.x) || isinf(a.y); }</%def>
<%def name="complex_isfinite(t)">${unary("isfinite", t, "int")} { return isfinite(a.x) && isfinite(a.y); }</%def>
<%def name="complex_absolute(t)">${unary("absolute", t, t)} { return hypot(a.x, a.y); }</%def>
<%def name="complex_angle(t)">${unary("angle", t, t)} { return atan2(a.y, a.x); }</%def>
<%def name="complex_conjugate(t)">${unary("conjugate", t)} { return (${t}2)(a.x, -a.y); }</%def>
<%def name="complex_square(t)">
${unary("square", t)} { return (${t}2)(a.x * a.x - a.y * a.y, a.x * a.y + a.y * a.x); }
</%def>
<%def name="complex_multiply(t)">
${binary("multiply", t)} { return (${t}2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
</%def>

## a / b by Smith, "Algorithm 116: Complex division", CACM 5(8), 1962.
<%def name="complex_divide(t)">
${binary("divide", t)}
{
    if (fabs(b.x) >= fabs(b.y)) {
        if (b.x == 0 && b.y == 0) return (${t}2)(a.x / fabs(b.x), a.y / fabs(b.x));
        const ${t} ratio = b.y / b.x, scale = 1 / (b.x + b.y * ratio);
        return (${t}2)((a.x + a.y * ratio) * scale, (a.y - a.x * ratio) * scale);
    }
    const ${t} ratio = b.x / b.y, scale = 1 / (b.y + b.x * ratio);
    return (${t}2)((a.x * ratio + a.y) * scale, (a.y * ratio - a.x) * scale);
}
</%def>

## The reciprocal, as in NumPy: the reciprocal of 0 is NaN, but the quotient 1 / 0 has an infinite part.
<%def name="complex_reciprocal(t)">
${unary("reciprocal", t)}
{
    if (fabs(a.x) >= fabs(a.y)) {
        const ${t} ratio = a.y / a.x, denominator = a.x + a.y * ratio;
        return (${t}2)(1 / denominator, -ratio / denominator);
    }
    const ${t} ratio = a.x / a.y, denominator = a.x * ratio + a.y;
    return (${t}2)(ratio / denominator, -1 / denominator);
}
</%def>

## a / |a|, or 0.  One infinite component gives its sign, two give NaN.
<%def name="complex_sign(t)">
${unary("sign", t)}
{
    const ${t} size = complex_absolute__${t}(a);
    if (size == 0) return (${t}2)(0, 0);
    if (isinf(a.x) != isinf(a.y))
        return (${t}2)(isinf(a.x) ? copysign((${t})1, a.x) : 0, isinf(a.y) ? copysign((${t})1, a.y) : 0);
    return isinf(a.x) ? (${t}2)((${t})NAN, (${t})NAN) : a / size;
}
</%def>
