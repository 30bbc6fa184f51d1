## cpu_copy: copy a stack of matrices on a CPU, or their lower triangles, with zeros above the diagonal.  Launch: groups
## of one work-item, bands * pieces for each matrix.
##
##      target, by contiguous lines              A work-item copies a tile of `lines` by `piece`, four lines at a
##      +--------+--------+---                   time.  If the source is read across its cache lines, these are
##      | tile   | tile   |     `lines`          still in the cache when they are read again.
##      +--------+--------+---
##        piece
##
##   group   (matrix * bands + band of the matrix) * pieces + piece of the line
##
## source, by_rows, rank   as in copy
## triangle        an argument: whether only the lower triangles are copied
## length, count   the length and number of the target's lines, which are its rows if by_rows, otherwise its columns
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="moves" file="/common/moves.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e = source.elem
E = f"__global {e.name}_t"
across, along = ("row", "col") if by_rows else ("col", "row")
%>
// min and max without a call of a built-in function.
#define LEAST(x, y) ((x) < (y) ? (x) : (y))
#define MOST(x, y) ((x) > (y) ? (x) : (y))
${element.scalar(e)}
${moves.types(e)}
${moves.define(e, noinline=True)}

static inline void clear(${E} *to, long step, long length)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    long i = 0;
% if e.itemsize <= 8:
    for (; step == 1 && i + 4 <= length; i += 4) FOUR(to + i) = 0;
#pragma clang loop vectorize(disable) unroll(disable)  // up to three elements, or elements apart in memory
% endif
    for (; i < length; i++) ${e.name}_store(to + i * step, (${e.value})(0));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("copy")}
{
    const long group = get_group_id(0), band = group / pieces;
    const long first = group % pieces * ${piece}, last = LEAST(first + ${piece}, length);
    const long top = band % bands * ${lines}, end = LEAST(top + ${lines}, count);
${operands.locate(["from", "to"], rank, "band / bands")}
    const long step = to_${along};
    // Lines i .. i + lines_here - 1 of the target, and of these the elements first .. last - 1.
    for (long i = top; i < end; i += 4) {
        const long lines_here = LEAST(4, end - i);
        long begin = first, stop = last;
        // For a triangle, clear the elements above the diagonal, and copy those of the square on the diagonal.  The
        // remaining elements of the four lines, begin .. stop, are copied after the loop.
        if (triangle) ${"stop = LEAST(last, i)" if by_rows else "begin = MOST(first, i + lines_here)"};
        for (long k = i; triangle && k < i + lines_here; k++) {
            const long ${("from_here = MOST(first, k + 1), to_here = last" if by_rows
                else "from_here = first, to_here = LEAST(last, k)")};
            clear(to + k * to_${across} + from_here * step, step, to_here - from_here);
#pragma clang loop vectorize(disable) unroll(disable)  // up to four elements
            for (long j = MOST(first, ${"i" if by_rows else "k"});
                j < LEAST(last, ${"k + 1" if by_rows else "i + lines_here"}); j++)
                ${e.name}_store(to + k * to_${across} + j * step,
                    ${e.name}_load(from + k * from_${across} + j * from_${along}));
        }
        if (begin < stop)
            move(from + i * from_${across} + begin * from_${along}, from_${across}, from_${along},
                 to + i * to_${across} + begin * step, to_${across}, step, lines_here, stop - begin);
    }
}
