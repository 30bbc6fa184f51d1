## solve: X = L^-1 B of `count` small lower triangles, on a GPU, in the place of B or in another array; a group solves
## for some columns of `together` pairs (L, B).  Launch: `groups` groups for each `together` pairs.
##
##      +--+             +-- group --+         Work-item (y, x) holds rows y + r side_m and columns
##      |L | n           |  columns  | n       x + c side_n of its group's part of B.  L is in local
##      +--+             +-----------+         memory, by its columns, with reciprocals on its diagonal;
##       n                     m               they begin in different banks.
## For each row: the work-items that hold it scale it and write it to local memory; all read it, and subtract its
## products from the rows below.  Rows alternate between two buffers, so that a row costs one barrier.
##
##   triangles  local memory: L of pair 0 of the group (see _local_triangle) | of pair 1 | ...
##   rows       local memory: buffer 0: row of pair 0 | pair 1 | ... || buffer 1: ...
##   v<r>_<c>   registers: the element in row y + r side_m and column x + c side_n
##   which, t   the number of the pair in the group, and of the work-item among those of the pair
##
## policy      SolvePolicy: side_m, item_m, side_n, item_n, together (matrices of a group)
## problem     SolveProblem               source      layout of C, from which B is read; None: B is read in place
## by_rows     whether neighbours along a row of X are neighbours in memory
## report      two numbers for each triangle: the column of the first zero on its diagonal, or -1; and 0 (see zeros)
## ragged      whether a table has n (at most `max_n`), m and the offsets of each pair: see _ragged
## n is at most side_m * item_m.
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="triangle" file="/factor/_local_triangle.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, p = problem.elem, policy
rank = len(problem.batch)
SM, SN, R, C, T = p.side_m, p.side_n, p.item_m, p.item_n, p.together
N, W, LANES = p.rows, p.columns, p.side_m * p.side_n
STRIDE = N + 1
read = "b" if source is None else "c"  # the array from which B is read
names = ["l", "b"] if source is None else ["l", "c", "b"]
# Work-items with adjacent numbers t have elements that are adjacent in memory.
position = f"x = t % {SN}, y = t / {SN}" if by_rows else f"y = t % {SM}, x = t / {SM}"
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.reciprocal(e)}

__kernel ${group.of_size(p.group_size)}
void ${kernel("solve")}
{
    __local value_t triangles[${T * N * STRIDE}], rows[${2 * T * W}];
    const int t = get_local_id(0) % ${LANES}, which = get_local_id(0) / ${LANES};
    const int ${position};
    const long triangle = get_group_id(0) / groups * ${T} + which;
% if rank or ragged or problem.reports:
    const long product = min(triangle, count - 1);
% endif
    const long column = get_group_id(0) % groups * ${W} + x;
    __local value_t *lower = triangles + which * ${N * STRIDE}, *row = rows + which * ${W};
${operands.locate(names, rank, "product")}
% if ragged:
${ragged_.pair()}
% if T == 1:
    // There is no return here, because some OpenCL implementations for CPUs mishandle barriers after a return.
    if (column - x >= m) n = 0, max_n = 0;
% endif
% endif
% for r in range(R):
% for c in range(C):
    value_t v${r}_${c} = (value_t)(0);
    if (${'triangle < count && ' if T > 1 else ''}y + ${r * SM} < n && column + ${c * SN} < m)
        v${r}_${c} = ${e.name}_load(${read} + (y + ${r * SM}) * ${read}_row + (column + ${c * SN}) * ${read}_col);
% endfor
% endfor
${triangle.load(problem, policy)}\
## Rows j from b side_m on: of these, each work-item has at most one, its row number b.
% for b in range(R):
    for (int j = ${b * SM}; j < min(${"max_n" if ragged else "n"}, ${(b + 1) * SM}); ++j) {
        __local value_t *shared = row + (j & 1) * ${T * W};
        if (y == j - ${b * SM}) {
% for c in range(C):
% if not problem.unit:
            v${b}_${c} = MUL(v${b}_${c}, lower[j * ${STRIDE + 1}]);
% endif
            shared[x + ${c * SN}] = v${b}_${c};
% endfor
        }
        barrier(CLK_LOCAL_MEM_FENCE);
% for c in range(C):
        const value_t x${c} = shared[x + ${c * SN}];
% endfor
% for r in range(b, R):
        ${f"if (y > j - {b * SM}) " if r == b else ""}{
            const value_t factor = lower[j * ${STRIDE} + y + ${r * SM}];
% for c in range(C):
            v${r}_${c} -= MUL(factor, x${c});
% endfor
        }
% endfor
    }
% endfor
    if (triangle >= count) return;
% if problem.reports:
    if (t == 0 && get_group_id(0) % groups == 0) {
        report += report_offset + 2 * product;
        report[0] = zeros[which] < n ? zeros[which] : -1;
        report[1] = 0;
    }
% endif
% for r in range(R):
% for c in range(C):
    if (y + ${r * SM} < n && column + ${c * SN} < m)
        ${e.name}_store(b + (y + ${r * SM}) * b_row + (column + ${c * SN}) * b_col, v${r}_${c});
% endfor
% endfor
}
