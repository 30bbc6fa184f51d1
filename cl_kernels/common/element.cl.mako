## Elements in memory: a typedef for one stored element, and loads and stores that convert
## between storage and the type of the computation (see portable_gpu/dtypes.py).
##
##   NAME_t                 one stored element (c64_t is a float2, f16_t a ushort of bits)
##   NAME_load(p)           -> one value
##   NAME_loadV(p)          -> V values as one vector (real elements)
##   NAME_store(p, v)       one value, rounded to nearest even
##   NAME_storeV(p, v)      V values (real elements)
##   values(e, V, stored)   the values of V stored elements that are in a variable
##
## A bool is true if its byte is not 0, as in NumPy.  Kernels compute with 0 and 1, and store them.
##
## NAME: e.name.  e: portable_gpu.dtypes.Element.  V: elements of a vector.  A CPU loads unaligned vectors at the same
## speed as aligned ones; a GPU needs alignment for wide accesses.
<%namespace name="half" file="/common/half.cl.mako"/>
<%def name="scalar(e)">
% if e.complex:
// NumPy aligns complex numbers to their components.
typedef ${e.value} ${e.name}_t __attribute__((aligned(${e.itemsize // 2})));
% else:
typedef ${e.storage} ${e.name}_t;
% endif
static inline ${e.value} ${e.name}_load(__global const ${e.name}_t *p)
{
% if e.name == "f16":
${half.load()}\
% elif e.name == "bf16":
    return as_float((uint)*p << 16);
% elif e.boolean:
    return ${truth("*p", 1)};
% else:
    return *p;
% endif
}
static inline void ${e.name}_store(__global ${e.name}_t *p, ${e.value} v)
{
% if e.name == "f16":
${half.store()}\
% elif e.name == "bf16":
    const uint bits = as_uint(v);
    const uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // to nearest, ties to even
    *p = (ushort)(v != v ? (bits >> 16) | 0x40u : rounded);
% elif e.boolean:
    *p = ${truth("v", 1)};
% else:
    *p = v;
% endif
}
</%def>

## Define NAME_loadV.  aligned: whether the addresses of vectors are multiples of their size (True or False), or a
## number of bytes of which they are multiples.
<%def name="vector_load(e, V, aligned)"><%
alignment = aligned or e.itemsize  # in bytes
if aligned is True:
    alignment = e.itemsize * V
%>\
typedef ${e.storage}${V} ${e.name}_x${V} __attribute__((aligned(${alignment})));
static inline ${e.real}${V} ${e.name}_load${V}(__global const ${e.name}_t *p)
{
% if e.name == "f16":
${half.vector_load(V, aligned)}\
% elif e.name == "bf16":
    return as_float${V}(CONVERT(uint${V}, *(__global const bf16_x${V} *)p) << 16);
% elif e.boolean:
    return ${truth(f"*(__global const b8_x{V} *)p", V)};
% else:
    return *(__global const ${e.name}_x${V} *)p;
% endif
}
</%def>

## Define NAME_storeV, after vector_load, whose typedef NAME_xV it uses.  A bfloat16 NaN keeps a bit of its fraction.
<%def name="vector_store(e, V, aligned)">
static inline void ${e.name}_store${V}(__global ${e.name}_t *p, ${e.real}${V} v)
{
% if e.name == "f16":
${half.vector_store(V, aligned)}\
% elif e.name == "bf16":
    const uint${V} bits = as_uint${V}(v), nan = (bits >> 16) | 0x40u;
    const uint${V} rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    *(__global bf16_x${V} *)p = CONVERT(ushort${V}, v != v ? nan : rounded);
% elif e.boolean:
    *(__global b8_x${V} *)p = ${truth("v", V)};
% else:
    *(__global ${e.name}_x${V} *)p = v;
% endif
}
</%def>

## An expression: the values of `stored`, a variable of the type NAME_t, or NAME_xV (floating-point elements).
<%def name="values(e, V, stored)"><% width = V if V > 1 else "" %>\
% if e.name == "f16":
(float${width})(${", ".join(f"vload_half({j}, (const half *)&{stored})" for j in range(V))})\
% elif e.name == "bf16":
as_float${width}(${f"CONVERT(uint{V}, {stored})" if V > 1 else f"(uint){stored}"} << 16)\
% else:
${stored}\
% endif
</%def>

## An expression: `width` bytes of bools as 0 or 1.
<%def name="truth(bytes, width)">\
${f"({bytes}) != 0" if width == 1 else f"as_uchar{width}(({bytes}) != (uchar{width})(0)) & (uchar{width})(1)"}\
</%def>
