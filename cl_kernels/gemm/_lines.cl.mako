## How an operand gets from global to local memory in lines of 128 bytes (see _wgmma), by asynchronous
## copies of 16 bytes.  Work-item t of those that copy takes chunk t % 8 of lines t / 8, t / 8 + pass,
## ...; pass is an eighth of the number of these work-items.
##
## lines: portable_gpu.ops.gemm.lines.Lines: name, itemsize, extent (rows of A, columns of B in the
## tile) and across (whether k runs across the lines).  Rows beyond the matrix repeat its last row; their
## results are never stored.  Beyond k the copy writes zeros.

## COPIES_ARRIVE(barrier): this work-item arrives at the barrier when its copies so far are done.
<%def name="define()">
#define COPIES_ARRIVE(barrier) asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory")
#define COPY(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory")
#define COPY_OR_ZERO(to, from, bytes) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory")
</%def>

## The places of this work-item's chunks of a tile in memory.
<%def name="place(lines, first, count)">
<% n, w, d, step, type = lines.name, lines.width, lines.depth, lines.step, lines.offset_type %>
    ${n} += ${first} * ${n}_${lines.s_stride};
% if lines.across:
    const int ${n}_last = ((int)min(${count} - ${first}, ${lines.extent}l) + ${w - 1}) / ${w} * ${w} - ${w};
% else:
    const int ${n}_last = (int)min(${count} - ${first}, ${lines.extent}l) - 1;
% endif
% for i in range(lines.copies):
% if lines.across:
    const ${type} ${n}_at${i} = ${lines.elem.itemsize} * (min((line + ${i * step}) / ${d} * ${d} + chunk * ${w}, ${n}_last) + (line + ${i * step}) % ${d} * (${type})${n}_${lines.k_stride});
% else:
    const ${type} ${n}_at${i} = ${lines.elem.itemsize} * (min(line + ${i * step}, ${n}_last) * (${type})${n}_${lines.s_stride} + chunk * ${w});
% endif
% endfor
</%def>

## Copy one step of k to the stage at `to`, and advance.
<%def name="copy(lines, to, advance)">
% for i in range(lines.copies):
    COPY(${to} + ${128 * lines.step * i}, (__global const char *)${lines.name} + ${lines.name}_at${i});
% endfor
    ${lines.name} += ${advance};
</%def>

## Copy the last step, of which `tail` steps of k exist.
<%def name="copy_tail(lines, to, advance)">
% for i in range(lines.copies):
    COPY_OR_ZERO(${to} + ${128 * lines.step * i}, (__global const char *)${lines.name} + ${lines.name}_at${i}, ${f"(line + {i * lines.step}) % {lines.depth}" if lines.across else f"chunk * {lines.width}"} < tail ? 16 : 0);
% endfor
    ${lines.name} += ${advance};
</%def>
