## An operand's way from global memory through registers to local memory, in chunks of 16 bytes along
## k: eight for each of the `extent` rows of A (columns of B) of the tile.
##
##   local memory   | chunk 0 of all rows | chunk 1 of all rows | ...        CHUNK(extent, row, chunk)
##
## where rows change places among eight, so that eight lanes that access local memory together meet
## different banks: they read eight rows, and write eight chunks of a row, or rows some way apart.
##
## lines: portable_gpu.ops.gemm.matrix.Lines.  A work-item moves `copies` chunks.
##
##   k along the line    each as it lies; the rows are `step` apart
##   k across the lines  `block` rows at a time, as vectors of one step of k each; their chunks are put
##                       together on the way to local memory, so that nothing waits for a load
##
## Beyond the matrix, rows are clamped: what they give is never stored.  Beyond k there are zeros.

<%def name="define(lines)">
#ifndef CHUNK
#define CHUNK(extent, row, chunk) ((chunk) * (extent) + ((row) ^ ((row) >> 3 ^ (chunk)) & 7))
#endif
typedef ${vector(lines.elem.storage, lines.block) if lines.across else "uint4"} ${lines.name}_raw;
</%def>

## Where this work-item's chunks lie in the tile (NAME_row0, NAME_chunk0), and in memory (NAME_at0).
<%def name="place(lines, first, count)">
<% n, type, width = lines.name, lines.offset_type, lines.block if lines.across else 1 %>
    ${n} += ${first} * ${n}_${lines.s_stride};
    const int ${n}_last = ((int)min(${count} - ${first}, ${lines.extent}l) + ${width - 1}) / ${width} * ${width} - ${width};
% for i in range(lines.copies // width):
% if lines.across:
    const int ${n}_row${i} = (t + ${i * lines.copiers}) % ${lines.extent // width} * ${width}, ${n}_chunk${i} = (t + ${i * lines.copiers}) / ${lines.extent // width};
    const ${type} ${n}_at${i} = min(${n}_row${i}, ${n}_last) + ${n}_chunk${i} * ${lines.width} * (${type})${n}_${lines.k_stride};
% else:
    const int ${n}_row${i} = t / 8 + ${i * lines.step}, ${n}_chunk${i} = t % 8;
    const ${type} ${n}_at${i} = min(${n}_row${i}, ${n}_last) * (${type})${n}_${lines.s_stride} + ${n}_chunk${i} * ${lines.width};
% endif
% endfor
    ${n}_raw ${", ".join(registers(lines))};
</%def>

## One step of k to registers, and on to the next; with tail, the last one, of which `tail` steps exist.
<%def name="load(lines, tail=False)">
<% n = lines.name %>
% for i in range(lines.copies // (lines.block if lines.across else 1)):
% for j in range(lines.width if lines.across else 1):
    ${n}_r${i}_${j} = ${f"{n}_chunk{i} * {lines.width} + {j} >= tail ? ({n}_raw)(0) : " if tail else ""}*(__global const ${n}_raw *)(${n} + ${n}_at${i}${f" + {j} * {n}_{lines.k_stride}" if lines.across else ""});
% endfor
% endfor
    ${n} += ${lines.depth}l * ${f"{n}_{lines.k_stride}" if lines.across else 1};
</%def>

## Registers to local memory, from chunk `start` on.
<%def name="store(lines, start)">
<% n, block = lines.name, lines.block if lines.across else 1 %>
% for i in range(lines.copies // block):
% for row in range(block):
    ${n}_local[${start} + CHUNK(${lines.extent}, ${n}_row${i} + ${row}, ${n}_chunk${i})] = ${chunk(lines, i, row)};
% endfor
% endfor
</%def>

<%!
def registers(lines):
    count = lines.copies // lines.block if lines.across else lines.copies
    steps = lines.width if lines.across else 1
    return [f"{lines.name}_r{i}_{j}" for i in range(count) for j in range(steps)]
%>

<%def name="chunk(lines, i, row)"><%
if not lines.across:
    return f"{lines.name}_r{i}_0"
parts = ", ".join(f"{lines.name}_r{i}_{j}{component(lines.block, row)}" for j in range(lines.width))
return f"as_uint4(({vector(lines.elem.storage, lines.width)})({parts}))"
%></%def>
