## Copies of an operand from global to local memory in lines of 128 bytes (see _wgmma), in chunks of 16 bytes, on NVIDIA
## GPUs (wgmma, mma).  Of the work-items that copy, number t copies `chunk` t % 8 of the lines t / 8 (`line`),
## t / 8 + lines.step ...; lines.step is an eighth of the number of these work-items.
##
##   not lines.gathered   each asynchronous copy moves a chunk, which begins at a multiple of 16 bytes
##   lines.gathered       each asynchronous copy moves an element; elements of 2 bytes, for which there is no such copy,
##                        are copied through registers (lines.by_registers)
##
## lines: portable_gpu.ops.gemm.matrix.lines.Lines: name, elem, extent (rows of A, columns of B in the
## tile), across (whether k runs across the lines) and gathered.  Rows beyond the matrix repeat its last
## row, or are zeros; their results are never stored.  Elements beyond k are zeros.
## In scope: line, chunk, the pointers a and b, their strides, and tail, the steps of k in the last tile.

## COPIES_ARRIVE(barrier): this work-item arrives at the barrier when its asynchronous copies so far are done.
## COPY(to, from): copy 16 bytes.  COPY_OR_ZERO: copy the first `bytes` of 16 bytes; the others become zeros.
## COPY_ELEMENT: copy the first `bytes` of `size` bytes in the same way.  PUT_CHUNK: store four words.  `to` is an
## address in local memory.
<%def name="define()">
#define COPIES_ARRIVE(barrier) \
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory")
#define COPY(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory")
#define COPY_OR_ZERO(to, from, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory")
#define COPY_ELEMENT(to, from, size, bytes) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], " #size ", %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory")
#define PUT_CHUNK(to, x, y, z, w) \
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(x), "r"(y), "r"(z), "r"(w) : "memory")
</%def>

## Declare NAME_at0 ..., the positions in memory (bytes) of this work-item's chunks of a tile, and, for gathered chunks
## with k across the lines, NAME_here0 ..., the numbers of their elements that exist.  NAME_last is the last row from
## which a chunk may begin.  first: the tile's first row of A (column of B); count: the rows (columns) of the matrix.
## Where k is across the lines, line l of the tile has step l % depth of k and the rows from l / depth * depth on.
<%def name="place(lines, first, count)">
<% n, w, d, step, type = lines.name, lines.width, lines.depth, lines.step, lines.offset_type %>
    ${n} += ${first} * ${n}_${lines.s_stride};
% if lines.across and not lines.gathered:
    const int ${n}_last = ((int)min(${count} - ${first}, ${lines.extent}l) + ${w - 1}) / ${w} * ${w} - ${w};
% else:
    const int ${n}_last = (int)min(${count} - ${first}, ${lines.extent}l) - 1;
% endif
% for i in range(lines.copies):
% if lines.across:
<% begin = f"(line + {i * step}) / {d} * {d} + chunk * {w}" %>\
    const ${type} ${n}_at${i} = ${lines.elem.itemsize}
        * (min(${begin}, ${n}_last) + (line + ${i * step}) % ${d} * (${type})${n}_${lines.k_stride});
% if lines.gathered:
    const int ${n}_here${i} = ${n}_last + 1 - (${begin});
% endif
% else:
    const ${type} ${n}_at${i} = ${lines.elem.itemsize}
        * (min(line + ${i * step}, ${n}_last) * (${type})${n}_${lines.s_stride} + chunk * ${w});
% endif
% endfor
</%def>

## Copy one step of the main loop to the stage at `to`, and advance by `advance` elements.
<%def name="copy(lines, to, advance)">
${chunks(lines, to, False)}
    ${lines.name} += ${advance};
</%def>

## Copy the last step, of which only `tail` elements of k exist.
<%def name="copy_tail(lines, to, advance)">
${chunks(lines, to, True)}
    ${lines.name} += ${advance};
</%def>

## The copies of a tile.  ends: whether only `tail` steps of k exist.
<%def name="chunks(lines, to, ends)">
% if lines.by_registers:
% for first in range(0, lines.copies, 4):
${through_registers(lines, to, range(first, min(first + 4, lines.copies)), ends)}
% endfor
% else:
% for i in range(lines.copies):
<% here, size = present(lines, i, ends), lines.elem.itemsize %>\
% if lines.gathered:
% for e in range(lines.width):
    COPY_ELEMENT(${place_of(lines, to, i)} + ${e * size}, ${source(lines, i)} + ${e * size}, ${size},
        ${f"{e} < {here} ? {size} : 0" if here else size});
% endfor
% elif here:
    COPY_OR_ZERO(${place_of(lines, to, i)}, ${source(lines, i)}, ${here} > 0 ? 16 : 0);
% else:
    COPY(${place_of(lines, to, i)}, ${source(lines, i)});
% endif
% endfor
% endif
</%def>

## Copies of elements of 2 bytes: all elements of a few chunks are loaded before the first chunk is stored.
<%def name="through_registers(lines, to, copies, ends)">
    {
% for i in copies:
<% here = present(lines, i, ends) %>\
        __global const ${lines.type} *const from${i} = (__global const ${lines.type} *)(${source(lines, i)});
<% values = [f"{e} < {here} ? from{i}[{e}] : 0" if here else f"from{i}[{e}]" for e in range(8)] %>\
        const uint ${", ".join(f"x{i}_{e} = {value}" for e, value in enumerate(values))};
% endfor
% for i in copies:
        PUT_CHUNK(${place_of(lines, to, i)}, ${", ".join(f"x{i}_{e} | x{i}_{e + 1} << 16" for e in range(0, 8, 2))});
% endfor
    }
</%def>

## The address in local memory, and the address of the source, of the i-th chunk.
<%def name="place_of(lines, to, i)">${to} + ${128 * lines.step * i}</%def>
<%def name="source(lines, i)">(__global const char *)${lines.name} + ${lines.name}_at${i}</%def>

## An expression: the number of elements of the i-th chunk that exist; "" if all exist.
<%def name="present(lines, i, ends)"><%
every = f"{lines.name}_here{i}" if lines.across and lines.gathered else ""
if not ends:
    return every
if not lines.across:
    return f"(tail - chunk * {lines.width})"
return f"((line + {i * lines.step}) % {lines.depth} < tail ? {every or lines.width} : 0)"
%></%def>
