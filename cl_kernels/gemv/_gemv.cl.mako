## Functions of all gemv kernels: loads and products (see _put for the store of y).
##
##   y[i] = alpha * sum_j op(A)[i, j] * x[j] + beta * y[i]        i < m (outputs), j < n (summed)
##   op(A)[i, j] is a[a_offset + i * a_out + j * a_sum]; x_step and y_step are strides, too.
##
## With several vectors, x and y are matrices, whose columns are x_pitch and y_pitch apart.  A kernel computes Q of
## them, a power of two.  If there are fewer (`vectors`, which is more than Q / 2), it computes the last one again in
## place of each missing one, and does not store those sums.
##
## Complex elements are computed as pairs of reals (re, im, re, im ...) with two sums:
##   s += a * x          components are alternately re*re and im*im
##   t += a * swap(x)    components are alternately re*im and im*re
## They are combined at the end, with the signs of a product or of a conjugated product.
##
## e: Element.  r: the real type of the sums (uint or ulong for integers, which wrap around).  V: elements of a vector.
## C: reals of one vector, V * e.components.  P: reals of one element, e.components.
<%namespace name="element" file="/common/element.cl.mako"/>
<%!
def lane(name, i, width):
    """Component i of a vector; a scalar is its own component."""
    return name if width == 1 else f"{name}.s{i:x}"

def build(rtype, values):
    """A vector from its components."""
    return values[0] if len(values) == 1 else f"({rtype}{len(values)})({', '.join(values)})"

def swapped(name, C):
    """Each (re, im) as (im, re)."""
    return f"{name}.s" + "".join(f"{i ^ 1:x}" for i in range(C))

def head(name, P):
    """The first element of a vector, on the left of an assignment."""
    return f"{name}.s0" if P == 1 else f"{name}.s01"

def lane_sum(name, C):
    """The sum of all components, as a balanced tree."""
    terms = [lane(name, i, C) for i in range(C)]
    while len(terms) > 1:
        terms = [f"({a} + {b})" for a, b in zip(terms[::2], terms[1::2])]
    return terms[0]

def column(q, pitch, Q):
    """The distance of vector q from vector 0, as a term of an address; of the last vector if q does not exist."""
    if q <= Q // 2:
        return f" + {q} * {pitch}" if q else ""
    return f" + min({q}, vectors - 1) * {pitch}"

def exists(q, Q):
    """A term of a condition, with its operator: whether vector q exists."""
    return f" && {q} < vectors" if q > Q // 2 else ""

def signs(rtype, C):
    """+1, -1, +1, -1 ..."""
    return build(rtype, ["1", "-1"] * (C // 2))
%>

## loadV(p): V adjacent elements as C reals.
<%def name="adjacent(e, r, V, aligned)">
<% C = V * e.components %>
% if V > 1 and e.complex:
typedef ${r}${C} ${e.name}_x${V} __attribute__((aligned(${e.itemsize * V if aligned else e.itemsize // 2})));
% endif
% if V > 1 and not e.complex:
${element.vector_load(e, V, aligned)}
% endif
static inline ${vector(r, C)} load${V}(__global const ${e.name}_t *p)
{
% if V == 1:
    return load_one(p);
% elif e.complex:
    return *(__global const ${e.name}_x${V} *)p;
% elif e.floating:
    return ${e.name}_load${V}(p);
% else:
    return CONVERT(${r}${V}, ${e.name}_load${V}(p));
% endif
}
</%def>

## gatherV(p, step): V elements, `step` apart, as C reals.
<%def name="gather(e, r, V)">
static inline ${vector(r, V * e.components)} gather${V}(__global const ${e.name}_t *p, long step)
{
    return (${vector(r, V * e.components)})(${", ".join(f"load_one(p + {i} * step)" for i in range(V))});
}
</%def>

## Add a x to s, and a xs to t of complex elements; xs is swap(x).
<%def name="dot_step(e, s, t, a, x, xs)">
        ${s} += ${a} * ${x};
% if e.complex:
        ${t} += ${a} * ${xs};
% endif
</%def>

## Multiply the components of s (of t if A is conjugated) by their signs.  Then the sum of all components of s is the
## real part, and that of t the imaginary part.
<%def name="signed(e, r, C, conj, s, t)">
% if e.complex:
    ${t if conj else s} *= ${signs(r, C)};
% endif
</%def>
