## For mfma: copies of an operand from global memory through registers to local memory, in chunks of 16 bytes along k.
## A tile has `extent` rows of A (columns of B), each of eight chunks.
##
##   local memory   | chunk 0 of all rows | chunk 1 of all rows | ...        CHUNK(extent, row, chunk): the number of a
##                                                                           chunk, from the start of the buffer on
##
## Among the chunks with number c, each eight rows are permuted: row r is at r ^ ((r / 8 ^ c) % 8).  So the eight lanes
## that access local memory at the same time access different banks.  They read a chunk of each of eight rows, and write
## eight chunks of one row, or chunks of rows that are not adjacent.
##
## lines: portable_gpu.ops.gemm.matrix.lines.Lines.  A work-item moves lines.copies chunks, in blocks of lines.block
## adjacent rows.
##
##   k along the line    a chunk is one load, and a block one row; a work-item's rows are lines.step apart
##   k across the lines  a load has one step of k of a block; chunks are combined from loads only when they are stored,
##                       so that no work-item waits for its loads before it has multiplied
##
## Rows beyond the matrix repeat its last rows; their results are never stored.  Elements beyond k are zeros.
## In scope: t, the number of the work-item; tail, the steps of k in the last tile; the pointers NAME, and their
## strides.

<%def name="define(lines)">
#ifndef CHUNK
#define CHUNK(extent, row, chunk) ((chunk) * (extent) + ((row) ^ (((row) >> 3 ^ (chunk)) & 7)))
#endif
typedef ${vector(lines.elem.storage, lines.block) if lines.across else "uint4"} ${lines.name}_raw;
</%def>

## Declare the positions of this work-item's blocks i: in the tile (NAME_row<i>, NAME_chunk<i>) and in memory
## (NAME_at<i>, in bytes); and the registers NAME_r<i>_<j> of its loads, for each step j of k.  NAME_last is the last
## row from which a block may begin.  first: the tile's first row of A (column of B); count: the rows (columns) of the
## matrix.
<%def name="place(lines, first, count)">
<% n, type, block, blocks = lines.name, lines.offset_type, lines.block, lines.extent // lines.block %>
    ${n} += ${first} * ${n}_${lines.s_stride};
    const int ${n}_last = ((int)min(${count} - ${first}, ${lines.extent}l) + ${block - 1}) / ${block} * ${block}
        - ${block};
% for i in range(lines.copies // block):
% if lines.across:
    const int ${n}_row${i} = (t + ${i * lines.copiers}) % ${blocks} * ${block},
        ${n}_chunk${i} = (t + ${i * lines.copiers}) / ${blocks};
    const ${type} ${n}_at${i} = ${lines.elem.itemsize}
        * (min(${n}_row${i}, ${n}_last) + ${n}_chunk${i} * ${lines.width} * (${type})${n}_${lines.k_stride});
% else:
    const int ${n}_row${i} = t / 8 + ${i * lines.step}, ${n}_chunk${i} = t % 8;
    const ${type} ${n}_at${i} = ${lines.elem.itemsize}
        * (min(${n}_row${i}, ${n}_last) * (${type})${n}_${lines.s_stride} + ${n}_chunk${i} * ${lines.width});
% endif
% endfor
    ${n}_raw ${", ".join(f"{n}_r{i}_{j}" for i in range(lines.copies // block) for j in range(lines.steps))};
</%def>

## Load one tile to the registers, and advance.  ends: whether it is the last tile, of which only `tail` steps of k
## exist.
<%def name="load(lines, ends=False)">
<% n = lines.name %>
% for i in range(lines.copies // lines.block):
% for j in range(lines.steps):
<%
place = f"(__global const char *){n} + {n}_at{i}"
if lines.across:
    place += f" + {j * lines.elem.itemsize} * {n}_{lines.k_stride}"
beyond = f"{n}_chunk{i} * {lines.width} + {j} >= tail ? ({n}_raw)(0) : " if ends else ""
%>\
    ${n}_r${i}_${j} = ${beyond}*(__global const ${n}_raw *)(${place});
% endfor
% endfor
    ${n} += ${lines.depth}l * ${f"{n}_{lines.k_stride}" if lines.across else 1};
</%def>

## Store the registers to local memory, from chunk `start` on.
<%def name="store(lines, start)">
% for i in range(lines.copies // lines.block):
% for row in range(lines.block):
    ${lines.name}_local[${start} + CHUNK(${lines.extent}, ${lines.name}_row${i} + ${row}, ${lines.name}_chunk${i})] =
        ${chunk(lines, i, row)};
% endfor
% endfor
</%def>

## An expression: the chunk of row `row` of the work-item's i-th block of rows, a uint4.
<%def name="chunk(lines, i, row)"><%
if not lines.across:
    return f"{lines.name}_r{i}_0"
elements = ", ".join(f"{lines.name}_r{i}_{j}{component(lines.block, row)}" for j in range(lines.steps))
return f"as_uint4(({vector(lines.elem.storage, lines.width)})({elements}))"
%></%def>
