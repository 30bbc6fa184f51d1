## The C side of portable_gpu.codegen.operators.Accumulator, for `width` adjacent accumulators.
##   T                     the struct
##   T_identity()          the neutral element
##   T_combine(a, b)       a folded with b
##   T_gather(a, b)        a folded with b, computed faster; accurate for at most 1024 calls in succession
## A field of T is a vector of `width` numbers, one for each accumulator.
<%def name="define(acc, width=1)">
<% T = acc.type(width) %>
typedef struct {
% for field in acc.fields:
    ${field.type(width)} ${field.name};
% endfor
} ${T};
static inline ${T} ${T}_identity(void)
{
    ${T} a;
% for field in acc.fields:
    a.${field.name} = (${field.type(width)})(${field.identity});
% endfor
    return a;
}
static inline ${T} ${T}_combine(${T} a, ${T} b)
{
    ${acc.combine(width)}
    return a;
}
static inline ${T} ${T}_gather(${T} a, ${T} b)
{
    ${(acc.gather or acc.combine)(width)}
    return a;
}
</%def>

## T_halve(v): fold the upper half of `width` accumulators into the lower half, an accumulator of half the width.
<%def name="halve(acc, width)">
static inline ${acc.type(width // 2)} ${acc.type(width)}_halve(${acc.type(width)} v)
{
    ${acc.type(width // 2)} a, b;
% for field in acc.fields:
    a.${field.name} = v.${field.name}.lo;
    b.${field.name} = v.${field.name}.hi;
% endfor
    return ${acc.type(width // 2)}_combine(a, b);
}
</%def>
