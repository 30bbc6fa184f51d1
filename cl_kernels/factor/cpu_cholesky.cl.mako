## cpu_cholesky: A = L L^H of small matrices on a CPU: a group of one work-item factorises `run` of them, one after the
## other.
##
##      scratch: T = L^H              From above, R rows at a time: first the strip that begins with the square
##      +--+----------+               D on the diagonal, then strips further right (see _rows).  The distance of
##      |\ | done     |               rows in T is `ld` elements.  Beyond column n there is space for a strip,
##      +--+--+---+---+               whose values are not used.
##         |D | strips    R rows; a strip has NR columns
##         +--+---+---+
##
## The scratch of a work-item has T, and from size - n - R on `inverse`, the reciprocals of T's diagonal.
##
## problem   CholeskyProblem           in_place   whether L replaces A; else the elements above L become zeros
## policy    CpuPolicy: R, NR above    size               elements of scratch for a work-item
## report    for each matrix, the first column whose pivot is not positive, or -1, and the bits of that pivot.  The
##           matrix may be a block of a larger one, from its column `first` on; reports of earlier blocks remain
## ragged    whether n and offsets are read from a table, whose largest n determines `size`; the matrices of a
##           work-item are then spread over the table, so that all work-items have large and small ones
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="moves" file="/common/moves.cl.mako"/>
<%namespace name="rows" file="/factor/_rows.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, rank, NR = problem.elem, len(problem.batch), policy.strip(problem.elem)
names = ["l"] if in_place else ["a", "l"]
E = f"__global {e.name}_t"
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.root(e)}
${moves.types(e)}
${moves.define_clear(e)}
${moves.define(e, noinline=True)}
${rows.types(e, policy)}
${rows.define(e, policy, True)}
${rows.define_square(e, policy)}

## Copy the triangle of A to T, and L back, four rows or columns at a time, whichever are contiguous.  Four lines also
## contain the elements of a square on the diagonal that are not in the triangle, so store_triangle copies these
## squares by elements.
static inline void load_triangle(${E} *a, long a_row, long a_col, ${E} *t, long ld, long n)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    for (long i = 0; i < n; i += 4) {
        const long lines = n - i < 4 ? n - i : 4;
        if (a_row == 1)  // columns from the diagonal on
            move(a + i * (a_row + a_col), a_col, a_row, t + i * (ld + 1), ld, 1, lines, n - i);
        else  // rows up to the diagonal
            move(a + i * a_row, a_row, a_col, t + i, 1, ld, lines, i + lines);
    }
}

static inline void store_triangle(${E} *t, long ld, ${E} *l, long l_row, long l_col, long n)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    for (long i = 0; i < n; i += 4) {
        const long lines = n - i < 4 ? n - i : 4;
        for (long j = i; j < i + lines; j++)
            move_elements(t + j * (ld + 1), ld, 1, l + j * (l_row + l_col), l_col, l_row, 1, i + lines - j);
        if (l_row == 1)
            move(t + i * ld + i + lines, ld, 1, l + i * l_col + (i + lines) * l_row, l_col, l_row, lines,
                n - i - lines);
        else
            move(t + i, 1, ld, l + i * l_row, l_row, l_col, lines, i);
    }
% if not in_place:
    const bool by_rows = l_row != 1;
    const long line = by_rows ? l_row : l_col, step = by_rows ? l_col : l_row;
    for (long i = 0; i < n; i++)
        for (long j = by_rows ? i + 1 : 0; j < (by_rows ? n : i); j++)
            ${e.name}_store(l + i * line + j * step, (value_t)(0));
% endif
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("cholesky")}
{
    ${E} *t = scratch + get_group_id(0) * size;
    clear(t, size);
% if ragged:
    const long start = get_group_id(0), end = count, step = get_num_groups(0);
% else:
    const long start = get_group_id(0) * run, end = start + run < count ? start + run : count, step = 1;
% endif
% for name in names:
    ${E} *${name}_first = ${f"({E} *)" if name == "a" else ""}${name};
% endfor
    for (long product = start; product < end; product += step) {
% for name in names:
        ${E} *${name} = ${name}_first;
% endfor
${operands.locate(names, rank, "product")}
% if ragged:
${ragged_.matrix(names, "long")}
        const long ld = ${ragged_.line(f"n + {NR}", e)};
% else:
        const long report_index = product;
% endif
        ${E} *inverse = t + size - n - ${policy.rows};
        long failed = -1;
        real_t bad_pivot = 0;
        load_triangle(${names[0]}, ${names[0]}_row, ${names[0]}_col, t, ld, n);
        for (long j = 0; j < n; j += ${policy.rows}) {
            factor_rows(t + j, ld, inverse, j, n, &failed, &bad_pivot);
            for (long i = j + ${NR}; i < n; i += ${NR}) solve_rows(t + j, ld, inverse, t + i, ld, j);
        }
        store_triangle(t, ld, l, l_row, l_col, n);
        __global long *reported = report + report_offset + 2 * report_index;
        if (first == 0 || (failed >= 0 && reported[0] < 0)) {
            reported[0] = failed < 0 ? -1 : first + failed;
            reported[1] = ${"as_long(bad_pivot)" if e.needs_fp64 else "(long)as_int(bad_pivot)"};
        }
    }
}
