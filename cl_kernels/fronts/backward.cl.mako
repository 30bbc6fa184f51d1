## X = L^-H Y for the own columns of some fronts, in place.  Front which[first_of + g] belongs to work-group g of `size`
## work-items; the fronts of a launch do not depend on each other, and their ancestors are done.
##
##      x_c = L11^-H (y_c - L21^H x_u)         x_u: the elements of X in the front's other rows, which are columns of
##                                             ancestors and so already known
##
## e         Element of L and of X
## x         Y, then the result: n x count (right-hand sides), row-major, in the permuted numbering
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E = f"__global {e.name}_t"
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}

__kernel ${group.of_size(size)}
void ${kernel("backward")}
{
    const long t = get_local_id(0), s = which[first_of + get_group_id(0)];
${front_.front("s", only=("columns", "rows", "panel", "leading", "row_start", "first"))}
    x += x_offset;
    ${E} *l = factor + factor_offset + panel, *own_x = x + first * count;
    __global const int *row = row_index + row_start;
    // Element (k, r) of y_c - L21^H x_u, with k a row and r a right-hand side.
    for (long at = t; at < columns * count; at += ${size}) {
        const long k = at / count, r = at % count;
        value_t sum = own_x[at];
        for (long i = 0; i < rows; i++)
            sum -= MUL(CONJ(l[(columns + i) * leading + k]), x[row[i] * count + r]);
        own_x[at] = sum;
    }
    // Backward substitution: row k is done, and is subtracted from all rows above.
    for (long k = columns - 1; k >= 0; k--) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        const real_t inverse = 1 / REAL(l[k * leading + k]);
        for (long r = t; r < count; r += ${size}) own_x[k * count + r] *= inverse;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (long at = t; at < k * count; at += ${size})
            own_x[at] -= MUL(CONJ(l[k * leading + at / count]), own_x[k * count + at % count]);
    }
}
