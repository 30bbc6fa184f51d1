## Y = L^-1 B for the own columns of some fronts, in place.  Work-group g, of `size` work-items, computes front
## which[first_of + g], where `which` lists the fronts of all launches; those of one launch do not depend on each other,
## and their children are done.
##
##      f = | b of the own columns | + the children's contributions, one after the other
##          | 0                    |
##      y = L11^-1 f_c         contribution = f_u - L21 y, which the parent reads (f_c, f_u: upper and lower part of f)
##
## e         Element of L and of X
## x         B, then the result: n x count (right-hand sides), row-major, in the permuted numbering
## contribution_start   for each front: the first row of its contribution in `contributions`, whose rows have `count`
##           elements
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E = f"__global {e.name}_t"
%>
${element.scalar(e)}
${epilogue.values(e)}
#define REAL(v) ${"((v).x)" if e.complex else "(v)"}

__kernel ${group.of_size(size)}
void ${kernel("forward")}
{
    const long t = get_local_id(0), s = which[first_of + get_group_id(0)];
${front_.front("s", only=("columns", "rows", "panel", "leading", "first", "child_start", "child_end"))}
    ${E} *l = factor + factor_offset + panel, *own_x = x + x_offset + first * count;
    contributions += contributions_offset;
    ${E} *below = contributions + contribution_start[s] * count;
    for (long at = t; at < rows * count; at += ${size}) below[at] = (value_t)(0);
    for (long k = child_start; k < child_end; k++) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        const long child_front = child[k];
${front_.front("child_front", "child_", ("rows", "row_start"))}
        __global const int *to = relative + child_row_start;
        ${E} *from = contributions + contribution_start[child_front] * count;
        for (long at = t; at < child_rows * count; at += ${size}) {
            const long row = to[at / count], r = at % count;
            if (row < columns) own_x[row * count + r] += from[at];
            else below[(row - columns) * count + r] += from[at];
        }
    }
    // Forward substitution: row k is done, and is subtracted from all rows below.
    for (long k = 0; k < columns; k++) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        const real_t inverse = 1 / REAL(l[k * leading + k]);
        for (long r = t; r < count; r += ${size}) own_x[k * count + r] *= inverse;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (long at = (k + 1) * count + t; at < (columns + rows) * count; at += ${size}) {
            const long i = at / count, r = at % count;
            const value_t v = MUL(l[i * leading + k], own_x[k * count + r]);
            if (i < columns) own_x[at] -= v;
            else below[at - columns * count] -= v;
        }
    }
}
