## cpu_solve: X = L^-1 B of a stack of small lower triangles on a CPU.  A group of one work-item solves `run` pairs (L,
## B) one after the other, or a part of the columns of one pair.
##
##      scratch: L^H, then a strip of B           A strip is copied, solved in steps of R rows (see _rows),
##      +----+   +-------+                        and copied back.  Its rows have NR elements; those
##      | \  |   | NR    | n                      beyond column m are not used.  Rows of L^H are `ld`
##      +----+   +-------+                        elements apart.  The reciprocals of its diagonal,
##                                                `inverse`, follow the strip.
##
## problem   SolveProblem
## policy    CpuPolicy                 size               elements of scratch for a work-item
## source    Operand of B if B is not the array of X, else None
## groups    work-items for a pair, with `columns` columns each; run is 1 if there are several
## ragged    whether n, m and offsets are read from a table, whose largest n determines `size`; the pairs of a work-item
##           are then spread over the table
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="moves" file="/common/moves.cl.mako"/>
<%namespace name="rows" file="/factor/_rows.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, rank, NR, R = problem.elem, len(problem.batch), policy.strip(problem.elem), policy.rows
E = f"__global {e.name}_t"
names = ["l", "b", *(["from"] if source else [])]
origin = "from" if source else "b"
# The function that copies L to L^H; of a conjugated L the elements are already those of L^H.
triangle = "move_triangle" if e.complex and not problem.l.conj else "move"
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.reciprocal(e)}
${moves.types(e)}
${moves.define_clear(e)}
${moves.define(e)}
% if triangle != "move":
${moves.define(e, triangle, flips=True)}
% endif
${rows.types(e, policy)}
${rows.define(e, policy, False)}

// Copy the triangle, and compute the reciprocals of its diagonal.
static inline void load_triangle(${E} *l, long l_row, long l_col, ${E} *t, long ld, ${E} *inverse, long n)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    // L is copied by its rows, up to the diagonal, or by its columns, from the diagonal on, whichever are contiguous;
    // `skip` is 1 for columns.
    const bool by_rows = l_row != 1 && l_row != -1;
    const long line = by_rows ? l_row : l_col, step = by_rows ? l_col : l_row, skip = by_rows ? 0 : 1;
    const long t_line = by_rows ? 1 : ld, t_step = by_rows ? ld : 1;
    for (long i = 0; i < n; i += 4) {
        const long lines = n - i < 4 ? n - i : 4;
        ${triangle}(l + i * (line + skip * step), line, step, t + i * (t_line + skip * t_step), t_line, t_step, lines,
            by_rows ? i + lines : n - i);
    }
    for (long i = n; i--;) {
% if problem.unit:
        ${e.name}_store(inverse + i, (value_t)(${"1, 0" if e.complex else "1"}));
% else:
        value_t d = ${e.name}_load(t + i * (ld + 1));
% if e.complex:
        d.y = -d.y;
% endif
        ${e.name}_store(inverse + i, reciprocal(d));
% endif
    }
}

// Copy a strip of B to scratch, or back, by rows or by columns of B, whichever are contiguous.
static inline void move_strip(${E} *b, long b_row, long b_col, ${E} *x, long n, long cols, bool back)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    const bool by_rows = b_col == 1;
    const long count = by_rows ? n : cols, length = by_rows ? cols : n;
    const long line = by_rows ? b_row : b_col, step = by_rows ? b_col : b_row;
    const long x_line = by_rows ? ${NR} : 1, x_step = by_rows ? 1 : ${NR};
    ${E} *from = back ? x : b, *to = back ? b : x;
    const long from_line = back ? x_line : line, from_step = back ? x_step : step;
    const long to_line = back ? line : x_line, to_step = back ? step : x_step;
    for (long i = 0; i < count; i += 4)
        move(from + i * from_line, from_line, from_step, to + i * to_line, to_line, to_step,
            count - i < 4 ? count - i : 4, length);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("solve")}
{
    ${E} *t = scratch + get_group_id(0) * size;
    clear(t, size);
    const long group = get_group_id(0) % groups;
% if ragged:
    const long start = get_group_id(0) / groups, end = count, step = get_num_groups(0) / groups;
% else:
    const long start = get_group_id(0) / groups * run, end = start + run < count ? start + run : count, step = 1;
% endif
    ${E} ${", ".join(f"*{name}_first = ({E} *){name}" for name in names)};
    for (long product = start; product < end; product += step) {
        ${E} ${", ".join(f"*{name} = {name}_first" for name in names)};
${operands.locate(names, rank, "product")}
% if ragged:
${ragged_.pair("long")}
        const long ld = ${ragged_.line(f"n + {R}", e)}, columns = (m + groups * ${NR} - 1) / (groups * ${NR}) * ${NR};
% endif
        const long to = (group + 1) * columns < m ? (group + 1) * columns : m;
        ${E} *x = t + (n + ${R}) * ld, *inverse = x + (n + ${R}) * ${NR};
        load_triangle(l, l_row, l_col, t, ld, inverse, n);
        for (long c = group * columns; c < to; c += ${NR}) {
            const long cols = to - c < ${NR} ? to - c : ${NR};
            move_strip(${origin} + c * ${origin}_col, ${origin}_row, ${origin}_col, x, n, cols, false);
            for (long j = 0; j < n; j += ${R}) solve_rows(t + j, ld, inverse, x, ${NR}, j);
            move_strip(b + c * b_col, b_row, b_col, x, n, cols, true);
        }
    }
}
