## One operand's way into local memory.  A panel holds `extent` rows of A (or columns of B), each
## `depth` deep along k; in local memory k is the slow axis, so that fragments are vectors:
##
##        s ->  extent (+ pad)             A: s is a row (a_row), B: s is a column (b_col)
##   k  | . . . . . . . . |
##   v  | . . . . . . . . |  depth         NAME_LOCAL(buffer, k, s)
##
## panel: portable_gpu.ops.gemm.simt.Panel.  Work-item t moves `loads` vectors of `width` elements
## along `along` ("k": stored transposed, or "s"); they rest in the registers NAME_r0, NAME_r1 ...
## Beyond the matrix rows are clamped (their results are never stored), and k is filled with 0.
<%namespace name="epilogue" file="/gemm/_epilogue.cl.mako"/>
## NAME_raw: what one load brings, as it lies in memory.  NAME_value(raw): the same in value_t,
## on its way to local memory, so that nothing waits for a load before the multiplications.
<%def name="define(panel, compute)">
<% n, e, w = panel.name, panel.elem, panel.width %>
typedef ${panel.raw_type} ${n}_raw;
static inline ${panel.value_type} ${n}_value(${n}_raw raw)
{
% if e.name == "f16":
    const ${vector("float", w)} v = vload_half${w if w > 1 else ""}(0, (const half *)&raw);
% elif e.name == "bf16":
    const ${vector("float", w)} v = as_${vector("float", w)}(convert_${vector("uint", w)}(raw) << 16);
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
#define ${n.upper()}_PITCH ${panel.pitch}
#define ${n.upper()}_LOCAL(buffer, k, s) ${n}_local[((buffer) * ${panel.depth} + (k)) * ${panel.pitch} + (s)]
</%def>

## Where this work-item's vectors lie: in the tile (NAME_s0, NAME_k0), and in memory (NAME_at0),
## from where the panel starts.  first: the first row of A (column of B); count: how many there are.
<%def name="place(panel, first, count)">
<% n, w = panel.name, panel.width %>
    ${n} += ${first} * ${n}_${panel.s_stride};
    const int ${n}_last = (int)min(${panel.extent}l, ${count} - ${first}) - ${w if panel.along == "s" else 1};
% for i in range(panel.loads):
    const int ${n}_s${i} = ${panel.place_s(i)}, ${n}_k${i} = ${panel.place_k(i)};
    const ${panel.offset_type} ${n}_at${i} = min(${n}_s${i}, ${n}_last) * (${panel.offset_type})${n}_${panel.s_stride} + ${n}_k${i} * (${panel.offset_type})${n}_${panel.k_stride};
% endfor
    ${n}_raw ${", ".join(f"{n}_r{i}" for i in range(panel.loads))};
</%def>

## Global memory to registers: a whole tile, then on to the next one.
<%def name="load(panel)">
<% n = panel.name %>
% for i in range(panel.loads):
    ${n}_r${i} = *(__global const ${n}_raw *)(${n} + ${n}_at${i});
% endfor
    ${n} += ${panel.depth} * ${n}_${panel.k_stride};
</%def>

## The last tile, of which only `tail` steps of k exist.
<%def name="load_tail(panel)">
<% n, w = panel.name, panel.width %>
% for i in range(panel.loads):
% for j in range(w):
<% ahead = j if panel.along == "k" else 0 %>\
    ${n}_r${i}${component(w, j)} = ${n}_k${i} + ${ahead} < tail ? ${n}[${n}_at${i} + ${j}] : (${panel.stored_type})(0);
% endfor
% endfor
</%def>

## Registers to local memory.
<%def name="store(panel, buffer)">
<% n, w, local = panel.name, panel.width, f"{panel.name.upper()}_LOCAL" %>
% for i in range(panel.loads):
% if panel.along == "s" or w == 1:
    *(__local ${panel.value_type} *)&${local}(${buffer}, ${n}_k${i}, ${n}_s${i}) = ${n}_value(${n}_r${i});
% else:
    {
        const ${panel.value_type} v = ${n}_value(${n}_r${i});
% for j in range(w):
        ${local}(${buffer}, ${n}_k${i} + ${j}, ${n}_s${i}) = v${component(w, j)};
% endfor
    }
% endif
% endfor
</%def>
