## Rows of a right-hand side into the permuted numbering, or back.
##
##   gather   x[k] = b[perm[k]]        scatter   b[perm[k]] = x[k]
##
## e, size   as in front; a work-item moves an element
## b         Operand of any strides;   x: n x count, by rows
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E = f"__global {e.name}_t"
%>
${element.scalar(e)}

__kernel ${group.of_size(size)}
void permute(__global const int *perm, ${E} *b, ${E} *x, long n, long count, long b_row, long b_col, long run, long b_offset, long x_offset)
{
    const long from = get_global_id(0) * run, end = from + run < n * count ? from + run : n * count;
    for (long at = from; at < end; at++) {
        ${E} *one = b + b_offset + perm[at / count] * b_row + at % count * b_col;
% if back:
        *one = x[x_offset + at];
% else:
        x[x_offset + at] = *one;
% endif
    }
}
