## minimum, maximum, subtract, absolute, sign_of and square, which expressions call (portable_gpu/codegen/terms.py), of
## single values and of vectors, as in NumPy: integers wrap around, and NaN is passed on.
##
## helpers: (def, C type t, width w) for each function; its C name is DEF__TYPE, with the type of vectors if w > 1.
% for name, ctype, width in helpers:
${getattr(self, name)(ctype, width)}
% endfor

## The head of a function; each letter of `parameters` is a parameter.
<%def name="head(name, t, parameters)">\
static inline ${t} ${name}__${t}(${", ".join(f"{t} {letter}" for letter in parameters)})\
</%def>

<%def name="minimum(t, w)">${extreme("minimum", "<", t, w)}</%def>
<%def name="maximum(t, w)">${extreme("maximum", ">", t, w)}</%def>
<%def name="extreme(name, comparison, t, w)">
<%
either = "|" if w > 1 else "||"
is_nan = f" {either} a != a" if t in ("float", "double") else ""
%>\
${head(name, vector(t, w), "ab")}
{
    return ${f"(a {comparison} b{is_nan})" if is_nan else f"a {comparison} b"} ? a : b;
}
</%def>

## a - b of char and short.  If a difference is compared with 0, NVIDIA's compiler (driver 580, for short) and Intel's
## (for char) assume that -x of the least value is positive, unless it is computed as a product of 24 bits.
<%def name="subtract(t, w)">
<% v = vector(t, w); wide = vector("int", w) %>
${head("subtract", v, "ab")}
{
    const ${wide} difference = convert_${wide}(a) + mul24(convert_${wide}(b), (${wide})(-1));
    return ${f"convert_{v}(difference)" if w > 1 else f"({t})difference"};
}
</%def>

<%def name="absolute(t, w)">
<% v = vector(t, w); u = vector("u" + t, w) %>
${head("absolute", v, "a")}
{
    return as_${v}(min(as_${u}(a), (${u})((${u})(0) - as_${u}(a))));
}
</%def>

## -1, 0 or 1; NaN for NaN.
<%def name="sign_of(t, w)">
<% v = vector(t, w) %>
${head("sign_of", v, "a")}
{
% if t[0] == "u":
    return a > (${v})(0) ? (${v})(1) : (${v})(0);
% else:
<% zero = f"({v})(0)" %>\
    return a > ${zero} ? (${v})(1) : a < ${zero} ? (${v})(-1)
        : ${f"a == {zero} ? {zero} : a" if t in ("float", "double") else zero};
% endif
}
</%def>

## Single numbers of signed types, and of ushort, which C multiplies as int, are multiplied as unsigned numbers.
<%def name="square(t, w)">
<% unsigned = "ulong" if t == "long" else "uint" %>
${head("square", vector(t, w), "a")}
{
% if t in ("float", "double") or t[0] == "u" and t != "ushort" or w > 1:
    return (${vector(t, w)})(a * a);
% else:
    return (${t})((${unsigned})a * (${unsigned})a);
% endif
}
</%def>
