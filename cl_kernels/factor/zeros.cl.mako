## zeros: find the first zero on the diagonal of each triangle of a stack.  A group has size / lanes triangles, with
## `lanes` work-items each.  `first`, the first column with a zero, or n, is in local memory, one for each triangle, or,
## if a group is one work-item, in private memory.
##
## lanes     work-items for a triangle      size   work-items of a group
## triangle  Operand           layout   "dense", "packed" (see packed.py), or "table": see _ragged
## report    two numbers for each triangle: the column, or -1; and 0 (see cholesky)
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, T = triangle.elem, size // lanes
is_zero = "v.x == 0 && v.y == 0" if e.complex else "v == 0"
# C text of `first` of this work-item's triangle, and of the statement that lowers it to a column.
result = "first" if size == 1 else "*result"
update = "first = min(first, {})" if size == 1 else "atomic_min(result, {})"
%>
${element.scalar(e)}

__kernel ${group.of_size(size)}
void ${kernel("zeros")}
{
% if size > 1:
    __local int first[${T}];
% endif
    const int lane = get_local_id(0) % ${lanes}, which = get_local_id(0) / ${lanes};
    const long unclamped = get_group_id(0) * ${T}l + which, product = min(unclamped, count - 1);
% if size > 1:
    __local int *result = first + which;
% endif
${operands.locate(["triangle"], rank, "product")}
% if layout == "table":
${ragged_.matrix(["triangle"])}
% else:
    const long report_index = product;
% endif
    report += report_offset + 2 * report_index;
% if size > 1:
    if (lane == 0) *result = (int)n;
    barrier(CLK_LOCAL_MEM_FENCE);
% else:
    int first = (int)n;
% endif
% if layout == "packed":
    for (long start = 0; start < n; start += ${block}) {
        const int rows = (int)min(${block}l, n - start);
        __global const ${e.name}_t *square = triangle + start * (start + 1) / 2 + rows * start;
        for (int i = lane; i < rows; i += ${lanes}) {
            const ${e.value} v = ${e.name}_load(square + mul24(i, i + 3) / 2);  // i (i + 1) / 2 + i
            if (${is_zero}) ${update.format("(int)start + i")};
        }
    }
% else:
    const long step = triangle_row + triangle_col;
    triangle += lane * step;
    for (int row = lane; row < n; row += ${lanes}, triangle += ${lanes} * step) {
        const ${e.value} v = ${e.name}_load(triangle);
        if (${is_zero}) ${update.format("row")};
    }
% endif
% if size > 1:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    if (lane == 0 && unclamped < count) {
        report[0] = ${result} < n ? ${result} : -1;
        report[1] = 0;
    }
}
