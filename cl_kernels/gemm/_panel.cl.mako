## How one operand gets to local memory.  A panel holds `extent` rows of A (or columns of B), each
## `depth` deep along k.  In local memory k is the slow axis, so that fragments are vectors:
##
##        s ->  extent (+ pad)             A: s is a row (a_row), B: s is a column (b_col)
##   k  | . . . . . . . . |
##   v  | . . . . . . . . |  depth         NAME_LOCAL(buffer, k, s)
##
## panel: portable_gpu.ops.gemm.tiled.tile.Panel.  Work-item t moves `loads` vectors of `width` elements
## along `along` ("k": stored transposed, or "s"), held in the registers NAME_r0, NAME_r1 ... between.
## Rows beyond the matrix repeat its last row (their results are never stored); k is filled with 0.
## along "either": single elements, along the axis that the strides say (_either_way).
## With `pairs` a word of local memory holds steps 2k and 2k + 1 of a row.  A vector along k contains
## whole pairs; across k, two vectors (`pieces`), one step apart, are combined into words.
<%namespace name="either_way" file="/gemm/_either_way.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
## NAME_raw: the type of one load, as in memory.  NAME_value(raw): its conversion to value_t, which is done before the
## store to local memory, so that no work-item waits for a load before the multiplications.
<%def name="define(panel, compute)">
<% n, e, w = panel.name, panel.elem, panel.width %>
typedef ${panel.raw_type} ${n}_raw;
% if panel.pairs:
static inline ${panel.value_type} ${n}_value(${", ".join(f"{n}_raw {raw}" for raw in ("raw", "next")[:panel.pieces])})
{
% if panel.pieces == 1:
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
#define ${n.upper()}_AT(bytes) ((__global const ${e.name}_t *)((__global const char *)${n} + (bytes)))
#define ${n.upper()}_PITCH ${panel.pitch}
#define ${n.upper()}_LOCAL(i, k, s) ${n}_local[(i) * ${panel.depth * panel.pitch} + ((k) * ${panel.pitch} + (s))]
</%def>

## The places of this work-item's vectors: in the tile (NAME_s0, NAME_k0), and in memory (NAME_at0), in
## bytes from the panel's start.  GPUs add an unsigned 32-bit offset to an address that is the same for
## all work-items without extra instructions.  first: the first row of A (column of B); count: the rows.
<%def name="place(panel, first, count)">
<% n, w, type = panel.name, panel.width, panel.offset_type %>
    ${n} += ${first} * ${n}_${panel.s_stride};
    const int ${n}_last = (int)min(${panel.extent}l, ${count} - ${first}) - ${w if panel.along == "s" else 1};
    ${either_way.begin(panel) if panel.along == "either" else ""}
% for i in range(panel.loads):
    const int ${n}_s${i} = ${panel.place_s(i)}, ${n}_k${i} = ${panel.place_k(i)};
    const ${type} ${n}_at${i} = ${panel.elem.itemsize} * (min(${n}_s${i}, ${n}_last)
        * (${type})${n}_${panel.s_stride} + ${times(panel.pack, f"{n}_k{i}")} * (${type})${n}_${panel.k_stride});
% endfor
    ${n}_raw ${", ".join(f"{n}_r{i}" for i in range(panel.loads * panel.pieces))};
</%def>

## Load a whole tile from global memory to registers.
<%def name="load(panel)">
<% n = panel.name %>
% for i in range(panel.loads):
% for piece in range(panel.pieces):
    ${n}_r${panel.pieces * i + piece} =
        *(__global const ${n}_raw *)(${n.upper()}_AT(${n}_at${i})${piece * f" + {n}_{panel.k_stride}"});
% endfor
% endfor
</%def>

## Load the last tile, of which only `tail` steps of k exist.
<%def name="load_tail(panel)">
<% n, w = panel.name, panel.width %>
% for i in range(panel.loads):
% for piece in range(panel.pieces):
% for j in range(w):
<% ahead = j if panel.along == "k" else 0 %>\
    ${n}_r${panel.pieces * i + piece}${component(w, j)} = ${times(panel.pack, f"{n}_k{i}")} + ${ahead + piece} < tail
        ? ${n.upper()}_AT(${n}_at${i})[${j}${piece * f" + {n}_{panel.k_stride}"}] : (${panel.stored_type})(0);
% endfor
% endfor
% endfor
</%def>

## Store the registers to local memory.
<%def name="store(panel, buffer)">
<% n, values, local = panel.name, panel.values, f"{panel.name.upper()}_LOCAL" %>
% if panel.along == "either":
${either_way.store(panel, buffer)}<% return STOP_RENDERING %>\
% endif
% for i in range(panel.loads):
<% value = f"{n}_value({', '.join(f'{n}_r{panel.pieces * i + piece}' for piece in range(panel.pieces))})" %>\
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
<%! times = lambda factor, text: text if factor == 1 else f"{factor} * {text}" %>
