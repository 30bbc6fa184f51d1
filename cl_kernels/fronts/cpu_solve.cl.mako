## Forward or backward substitution on a CPU, in place.  A group is one work-item: it processes a list of fronts,
## children before parents (forward) or parents before children (backward), for `share` columns of B.  Group g
## has list g % lists.
##
##      forward    f = [b of the own columns; 0] + the children's contributions     y = L11^-1 f_c
##                 contribution = f_u - L21 y, which the parent reads
##      backward   x_c = L11^-H (y_c - L21^H x_u), with x_u of the front's other rows, which ancestors have computed
##
## share      columns of B that a group computes; r0: the first of them, n: how many there are
## e          Element            direction   "forward" or "backward"
## policy     the vectors: see _cpu_products
## which      the fronts; list k is which[list_start[k] .. list_start[k + 1])
## x          B, then the result: n x count, row-major, in the permuted numbering
## contribution_start   for each front: the first row of its contribution in `contributions`, whose rows have `count`
##            elements
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="rows" file="/factor/_rows.cl.mako"/>
<%namespace name="products" file="/fronts/_cpu_products.cl.mako"/>
<%namespace name="strips_of" file="/fronts/_cpu_product_strips.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E = f"__global {e.name}_t"
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}

${rows.types(e, policy)}
${products.define(e, policy)}
${strips_of.define(e, policy)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel(direction)}
{
    const long list = get_group_id(0) % lists, r0 = get_group_id(0) / lists * share;
    const long n = count - r0 < share ? count - r0 : share, begin = list_start[list], end = list_start[list + 1];
    x += x_offset + r0;
    contributions += contributions_offset + r0;
    for (long at = begin; at < end; at++) {
        const long s = which[${"at" if direction == "forward" else "begin + end - 1 - at"}];
${front_.front("s", only=("columns", "rows", "panel", "leading", "first",
    *(("child_start", "child_end") if direction == "forward" else ("row_start",))))}
        ${E} *l = factor + factor_offset + panel, *l21 = l + columns * leading, *own_x = x + first * count;
% if direction == "forward":
        // The own rows of x, and the contribution `below`, become f.
        ${E} *below = contributions + contribution_start[s] * count;
        for (long i = 0; i < rows; i++)
            for (long r = 0; r < n; r++) below[i * count + r] = (value_t)(0);
        for (long k = child_start; k < child_end; k++) {
            const long child_front = child[k];
${front_.front("child_front", "child_", ("rows", "row_start"))}
            for (long i = 0; i < child_rows; i++) {
                const long row = relative[child_row_start + i];
                ${E} *from = contributions + (contribution_start[child_front] + i) * count,
                    *to = row < columns ? own_x + row * count : below + (row - columns) * count;
                for (long r = 0; r < n; r++) to[r] += from[r];
            }
        }
        if (count == 1) {
            for (long k = 0; k < columns; k++) {
                subtract_products(l + k * leading, leading, own_x, own_x + k, 1, k);
                own_x[k] *= 1 / REAL(l[k * leading + k]);
            }
            subtract_products(l21, leading, own_x, below, rows, columns);
            continue;
        }
        for (long k = 0; k < columns; k++) {
            for (long j = 0; j < k; j++) subtract(own_x + k * count, l[k * leading + j], own_x + j * count, n);
            scale(own_x + k * count, 1 / REAL(l[k * leading + k]), n);
        }
        subtract_forward(below, l21, leading, own_x, count, n, rows, columns);
% else:
        __global const int *row = row_index + row_start;
        if (count == 1) {
            subtract_transposed(own_x, l21, leading, x, row, rows, columns);
            for (long k = columns - 1; k >= 0; k--) {
                own_x[k] *= 1 / REAL(l[k * leading + k]);
                subtract_row(own_x, l + k * leading, own_x[k], k);
            }
            continue;
        }
        subtract_backward(own_x, l21, leading, x, row, count, n, rows, columns);
        for (long k = columns - 1; k >= 0; k--) {
            scale(own_x + k * count, 1 / REAL(l[k * leading + k]), n);
            for (long j = 0; j < k; j++) subtract(own_x + j * count, CONJ(l[k * leading + j]), own_x + k * count, n);
        }
% endif
    }
}
