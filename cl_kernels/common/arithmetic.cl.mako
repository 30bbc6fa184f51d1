## Functions of single numbers that expressions call (portable_gpu/codegen/terms.py): operations that C does not define,
## or defines in another way than NumPy.  Integers wrap around, and no integer division raises a signal on a CPU.
##
## helpers: (def, C type t, width w) for each function that is needed; its C name is DEF__TYPE.  w is 1.
% for name, ctype, width in helpers:
${getattr(self, name)(ctype, width)}
% endfor

## The head of a function; each letter of `parameters` is a parameter.
<%def name="head(name, t, parameters)">\
static inline ${t} ${name}__${t}(${", ".join(f"{t} {letter}" for letter in parameters)})\
</%def>

## Declare is_zero and negates: whether the divisor b is 0 or -1, for which C's division may raise a signal; and `safe`,
## the divisor that is used: 1 in place of these two.
<%def name="divisor(t)">\
    const bool is_zero = b == 0, negates = ${"false" if t[0] == "u" else "b == -1"};
    const ${t} safe = is_zero || negates ? (${t})1 : b;\
</%def>
## The negative of a, which wraps around.  Why narrow types take a product of 24 bits: see `subtract` of magnitudes.
<%def name="negative(t)"><% unsigned = "ulong" if t == "long" else "uint" %>\
${f"({t})mul24((int)a, -1)" if t in ("char", "short") else f"(({t})(0 - ({unsigned})a))"}\
</%def>

## divide: rounds to zero, as C does; 0 where b is 0.
<%def name="divide(t, w)">
${head("divide", t, "ab")}
{
${divisor(t)}
    return is_zero ? 0 : negates ? ${negative(t)} : (${t})(a / safe);
}
</%def>

## floor_divide: NumPy's a // b.
<%def name="floor_divide(t, w)">
${head("floor_divide", t, "ab")}
{
% if t in ("float", "double"):
    const ${t} rest = fmod(a, b), quotient = a / b;
    if (b == 0) return quotient;
    ${t} whole = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) whole -= 1;
    if (whole == 0) return copysign((${t})0, quotient);
    const ${t} down = floor(whole);
    return whole - down > (${t})0.5 ? down + 1 : down;
% else:
${divisor(t)}
    const ${t} quotient = (${t})(a / safe);
% if t[0] == "u":
    return is_zero || negates ? 0 : quotient;
% else:
    const ${t} rest = (${t})(a % safe);
    return is_zero ? 0 : negates ? ${negative(t)} : (${t})(quotient - (rest != 0 && (rest < 0) != (b < 0)));
% endif
% endif
}
</%def>

## mod: NumPy's a % b, which has the sign of b.
<%def name="mod(t, w)">
${head("mod", t, "ab")}
{
% if t in ("float", "double"):
    const ${t} rest = fmod(a, b);
    if (b == 0) return rest;
    if (rest == 0) return copysign((${t})0, b);
    return (b < 0) != (rest < 0) ? rest + b : rest;
% else:
${divisor(t)}
    const ${t} rest = (${t})(a % safe);
    return is_zero ? 0 : ${"rest" if t[0] == "u" else f"rest != 0 && (rest < 0) != (b < 0) ? ({t})(rest + b) : rest"};
% endif
}
</%def>

## remainder_of: the remainder with the sign of a, as in C.
<%def name="remainder_of(t, w)">
${head("remainder_of", t, "ab")}
{
${divisor(t)}
    return is_zero || negates ? 0 : (${t})(a % safe);
}
</%def>

## power: integer powers by repeated squaring; a^b with b < 0 is the reciprocal rounded to zero.
<%def name="power(t, w)">
<% unsigned = "ulong" if t in ("long", "ulong") else "uint" %>
${head("power", t, "ab")}
{
% if t[0] != "u":
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
% endif
    ${unsigned} base = (${unsigned})a, result = 1;
    for (${unsigned} rest = (${unsigned})b; rest; rest >>= 1) {
        if (rest & 1) result *= base;
        base *= base;
    }
    return (${t})result;
}
</%def>

## Shifts by as many bits as the type has, or more, give 0, or -1 for the right shift of a negative number.
<%def name="left_shift(t, w)">
${head("left_shift", t, "ab")}
{
    return ${within(t)} ? (${t})((${"ulong" if t in ("long", "ulong") else "uint"})a << b) : (${t})0;
}
</%def>

<%def name="right_shift(t, w)">
${head("right_shift", t, "ab")}
{
    return ${within(t)} ? (${t})(a >> b) : (${t})(${"0" if t[0] == "u" else "a < 0 ? -1 : 0"});
}
</%def>
## An expression: whether the count b is from 0 to the bits of t less one.
<%def name="within(t)">\
${"" if t[0] == "u" else "b >= 0 && "}b < ${{"char": 8, "short": 16, "int": 32, "long": 64}[t.removeprefix("u")]}\
</%def>
