## The copy of one operand of gemm to local memory.  A panel holds `extent` rows of A (or columns of B), each `depth`
## deep along k.  In local memory k is the slow axis, so that fragments are vectors:
##
##        s ->  extent (+ pad)             A: s is a row (a_row), B: s is a column (b_col)
##   k  | . . . . . . . . |
##   v  | . . . . . . . . |  depth         NAME_LOCAL(buffer, k, s)
##
## panel: portable_gpu.ops.gemm.tiled.tile.Panel, whose attributes these are; NAME: a or b.
##   along    the axis, "s" or "k", along which a load has `width` adjacent elements; or "either": single elements are
##            moved along the axis that the strides select (_either_way)
##   loads    the vectors that work-item t moves through the registers NAME_r0, NAME_r1 ...
##   pairs    whether a word of local memory holds two steps of k, 2k and 2k + 1, of a row (_pairs).  A load along k
##            contains whole words; of other loads two (loads_each), one step apart, are combined into words
##   pack     the steps of k of a word or element of local memory: 2 for pairs, else 1
##   values   the words or elements of a vector that is stored in local memory
## Rows beyond the matrix repeat its last row (their results are never stored); k is filled with 0.
<%namespace name="either_way" file="/gemm/_either_way.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="gather" file="/gemm/_gather.cl.mako"/>
<%namespace name="strided" file="/gemm/_strided.cl.mako"/>

## NAME_raw: the type of one load, as in memory.  NAME_value(raw): its conversion to value_t, which is done before the
## store to local memory, so that no work-item waits for a load before the multiplications.
<%def name="define(panel, compute)">
<% n, e, w = panel.name, panel.elem, panel.width %>
typedef ${panel.raw_type} ${n}_raw;
% if panel.pairs:
static inline ${panel.value_type} ${n}_value(
    ${", ".join(f"{n}_raw {raw}" for raw in ("raw", "next")[:panel.loads_each])})
{
% if panel.loads_each == 1:
    return as_${panel.value_type}(raw);
% else:
    return convert_${panel.value_type}(raw) | convert_${panel.value_type}(next) << 16;
% endif
}
% else:
static inline ${panel.value_type} ${n}_value(${n}_raw raw)
{
% if e.name == "f16":
    const ${vector("float", w)} v = vload_half${w if w > 1 else ""}(0, (const half *)&raw);
% elif e.name == "bf16":
    const ${vector("float", w)} v = as_${vector("float", w)}(convert_${vector("uint", w)}(raw) << 16);
% elif e.boolean:
    const ${panel.raw_type} v = ${element.truth("raw", w)};
% else:
    const ${panel.raw_type} v = raw;
% endif
% if panel.conj:
    return (value_t)(v.x, -v.y);
% elif w > 1:
    return v;
% else:
    return ${epilogue.convert(compute, e, "v")};
% endif
}
% endif
## NAME_AT(bytes): the pointer to an element in memory.  NAME_PITCH: elements from one k to the next in local memory.
#define ${n.upper()}_AT(bytes) ((__global const ${e.name}_t *)((__global const char *)${n} + (bytes)))
#define ${n.upper()}_PITCH ${panel.pitch}
#define ${n.upper()}_LOCAL(buffer, k, s) \
    ${n}_local[(buffer) * ${panel.depth * panel.pitch} + ((k) * ${panel.pitch} + (s))]
</%def>

## The reader of the operand: _strided or _gather.
##
##   place(panel, first, count, begin)   declare the positions of this work-item's loads in the tile (NAME_s0,
##                                       NAME_k0 ...) and in memory.  first: the first row of A (column of B); count:
##                                       the number of rows; begin: the first step of k
##   load(panel, ends)                   load a step's panel to registers; ends: whether only `tail` of its steps exist
##   advance(panel, steps)               advance along k
<%def name="place(panel, first, count, begin)">
${(gather if panel.reader else strided).place(panel, first, count, begin)}
</%def>
<%def name="load(panel, ends)">
${(gather if panel.reader else strided).load(panel, ends)}
</%def>
<%def name="advance(panel, steps)">
${(gather if panel.reader else strided).advance(panel, steps)}
</%def>

## Store the registers to local memory.
<%def name="store(panel, buffer)">
${either_way.store(panel, buffer) if panel.along == "either" else store_vectors(panel, buffer)}
</%def>
<%def name="store_vectors(panel, buffer)">
<% n, values, local = panel.name, panel.values, f"{panel.name.upper()}_LOCAL" %>
% for i in range(panel.loads):
<%
loaded = [f"{n}_r{panel.loads_each * i + half}" for half in range(panel.loads_each)]
value = f"{n}_value({', '.join(loaded)})"
%>\
% if panel.along == "s" or values == 1:
    *(__local ${panel.value_type} *)&${local}(${buffer}, ${n}_k${i}, ${n}_s${i}) = ${value};
% else:
    {
        const ${panel.value_type} v = ${value};
% for j in range(values):
        ${local}(${buffer}, ${n}_k${i} + ${j}, ${n}_s${i}) = v${component(values, j)};
% endfor
    }
% endif
% endfor
</%def>
