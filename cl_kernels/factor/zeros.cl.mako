## The first zero on the diagonal of each triangle of a stack: a group looks for it.
##
## triangle  Operand           layout   "dense", "packed" (see packed.py), or "table": see _ragged
## report    of each triangle, its column, or -1; and 0: see cholesky
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e = triangle.elem
is_zero = "v.x == 0 && v.y == 0" if e.complex else "v == 0"
%>
${element.scalar(e)}

__kernel ${group.of_size(size)}
void zeros(${"__global const long *table" if layout == "table" else "long n"}${operands.parameters("triangle", e, rank)}, __global long *report, long report_offset${operands.batch_parameters(rank)})
{
    __local int found;
    const long product = get_group_id(0);
${operands.locate(["triangle"], rank, "product")}
% if layout == "table":
${ragged_.matrix(["triangle"])}
% else:
    const long place = product;
% endif
    report += report_offset + 2 * place;
    if (get_local_id(0) == 0) found = (int)n;
    barrier(CLK_LOCAL_MEM_FENCE);
% if layout == "packed":
    for (long start = 0; start < n; start += ${block}) {
        const int rows = (int)min(${block}l, n - start);
        __global const ${e.name}_t *square = triangle + start * (start + 1) / 2 + rows * start;
        for (int i = get_local_id(0); i < rows; i += ${size}) {
            const ${e.value} v = ${e.name}_load(square + mul24(i, i + 3) / 2);
            if (${is_zero}) atomic_min(&found, (int)start + i);
        }
    }
% else:
    const long step = triangle_row + triangle_col;
    triangle += get_local_id(0) * step;
    for (int row = get_local_id(0); row < n; row += ${size}, triangle += ${size} * step) {
        const ${e.value} v = ${e.name}_load(triangle);
        if (${is_zero}) atomic_min(&found, row);
    }
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        report[0] = found < n ? found : -1;
        report[1] = 0;
    }
}
