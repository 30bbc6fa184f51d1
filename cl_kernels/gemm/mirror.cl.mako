## The triangle of C that is not computed: it becomes the transpose of the computed triangle, or zeros.  Work-group (x,
## y, z) has column x and row y of tiles of the z-th product; groups whose tile is in the computed triangle return.
##
##          left                    A group writes one tile `to`, from row `top` and column `left` on.  Its
##    +--+--+--+                    elements are read from the mirrored tile `of` and transposed in local
##    |  |  |to|  top               memory, so that rows of both tiles are accessed contiguously.  On the
##    +--+--+--+                    diagonal both are the same tile, in which the elements of the computed
##    |  |  |  |                    triangle are read and the others written.
##    +--+--+--+
##    |of|  |  |  left
##    +--+--+--+
##     top
##
## problem    a GemmProblem: C, its triangle, and `fills`: mirror or zeros
## tile, group    the side of a tile, and work-items of a group; a group of one has the tile in private memory
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
c, rank = problem.c.elem, len(problem.batch)
lower = problem.triangle == "lower"
outside = ">" if lower else "<"  # compares col and row of an element that is written
%>
${element.scalar(c)}

__kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void ${kernel("mirror")}
{
    const long top = ${tile}l * get_group_id(1), left = ${tile}l * get_group_id(0);
    if (${"top > left" if lower else "left > top"}) return;
${operands.locate(["c"], rank, "first_product + get_group_id(2)")}
% if group == 1:
    const long bottom = min(top + ${tile}, n), right = min(left + ${tile}, n);
% if problem.fills == "mirror":
    // The tile `of` by rows, with a pitch of tile + 1.
    ${c.name}_t lines[${tile * (tile + 1)}];
    for (long row = left; row < right; row++)
        for (long col = top; col < bottom; col++)
            lines[(row - left) * ${tile + 1} + col - top] = c[row * c_row + col * c_col];
% endif
    for (long row = top; row < bottom; row++)
        for (long col = ${"max(left, row + 1)" if lower else "left"};
            col < ${"right" if lower else "min(right, row)"}; col++)
            c[row * c_row + col * c_col] =
                ${f"lines[(col - left) * {tile + 1} + row - top]" if problem.fills == "mirror" else f"({c.name}_t)(0)"};
% else:
% if problem.fills == "mirror":
    // The tile `of` by rows, with a pitch of tile + 1, so that elements of a column are in different banks.
    __local ${c.name}_t lines[${tile * (tile + 1)}];
    for (int e = get_local_id(0); e < ${tile * tile}; e += ${group}) {
        const long row = left + e / ${tile}, col = top + e % ${tile};
        if (row < n && col < n && row ${outside} col)
            lines[e / ${tile} * ${tile + 1} + e % ${tile}] = c[row * c_row + col * c_col];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    for (int e = get_local_id(0); e < ${tile * tile}; e += ${group}) {
        const long row = top + e / ${tile}, col = left + e % ${tile};
        if (row < n && col < n && col ${outside} row)
            c[row * c_row + col * c_col] =
                ${f"lines[e % {tile} * {tile + 1} + e / {tile}]" if problem.fills == "mirror" else f"({c.name}_t)(0)"};
    }
% endif
}
