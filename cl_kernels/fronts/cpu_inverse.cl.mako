## The elements of the inverse Z in the pattern of small fronts, on a CPU.  Groups of one work-item take every
## get_num_groups(0)-th front of the list `which`.
##
##      X = L11^-1,  V = -L21 X,  P = -Z22 V,  Z21 = -P,  Z11 = X^H X - V^H P       see fronts/inverse
##
## Names in the kernel: m = c + u rows, of which c are own columns; x, v, y, p: the pointers to X, V, -X and P, by rows
## of n elements; corner: Z11; z22: Z22, by rows of `step` elements.
##
## policy    the vectors: see _cpu_products
## strip     columns of a product's strip; rows of X and P have n elements, the next multiple of it
## index     0, 1, 2 ...: the rows of y that subtract_backward reads
## scratch   of a work-item, `size` elements: [X; V] and [-X; P] of panel_size each, Z11 of `square`, a leaf's Z22
## z         the blocks, m x m by rows, whose lower triangles are valid; block_start: the start of each front's block
## diagonal  the diagonal of Z in the permuted numbering; this kernel stores that of Z11
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="rows_" file="/factor/_rows.cl.mako"/>
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
${rows_.types(e, policy)}
${products.define(e, policy)}
${strips_of.define(e, policy)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("inverse")}
{
    ${E} *x = scratch + get_group_id(0) * size, *y = x + panel_size, *corner = y + panel_size;
    for (long item = get_group_id(0); item < count; item += get_num_groups(0)) {
        const long s = which[item];
${front_.front("s", only=("columns", "rows", "panel", "leading", "row_start", "first", "child_start", "child_end",
    "parent"))}
        const long c = columns, u = rows, m = c + u, n = (c + ${strip - 1}) / ${strip} * ${strip};
        const bool has_children = child_end > child_start;  // they read this front's block later
        ${E} *l = factor + factor_offset + panel, *own_block = z + z_offset + block_start[s];
        ${E} *z22 = has_children ? own_block + c * m + c : corner + square, *v = x + c * n, *p = y + c * n;
        const long step = has_children ? m : u;
        for (long k = 0; k < m * n; k++) x[k] = y[k] = (value_t)(0);
        // X by forward substitution, row by row.
        for (long i = 0; i < c; i++) {
            x[i * n + i] = AS_VALUE(1);
            for (long k = 0; k < i; k++) subtract(x + i * n, l[i * leading + k], x + k * n, k + 1);
            scale(x + i * n, 1 / REAL(l[i * leading + i]), i + 1);
            for (long k = 0; k <= i; k++) y[i * n + k] = -x[i * n + k];
        }
        if (u) {
${front_.front("parent", "parent_", ("columns", "rows"))}
            const long line = parent_columns + parent_rows;
            __global const int *place = relative + row_start;
            ${E} *parent_block = z + z_offset + block_start[parent];
            // Z22 from the parent's block, whose rows have `line` elements; then V and P.
            for (long i = 0; i < u; i++)
                for (long j = 0; j <= i; j++) {
                    const value_t d = parent_block[place[i] * line + place[j]];
                    z22[i * step + j] = d;
                    z22[j * step + i] = i == j ? d : CONJ(d);
                }
            subtract_forward(v, l + c * leading, leading, x, n, n, u, c);
            subtract_forward(p, z22, step, v, n, n, u, u);
        }
        // A leaf stores only the diagonal of Z11.
        if (!has_children) {
            for (long k = 0; k < c; k++) corner[k] = (value_t)(0);
            for (long i = 0; i < m; i++)
                for (long k = 0; k < c; k++) corner[k] -= MUL(CONJ(x[i * n + k]), y[i * n + k]);
            for (long k = 0; k < c; k++) diagonal[diagonal_offset + first + k] = corner[k];
            continue;
        }
        for (long k = 0; k < c * n; k++) corner[k] = (value_t)(0);
        subtract_backward(corner, x, n, y, index, n, n, m, c);
        for (long i = 0; i < c; i++) {
            for (long k = 0; k <= i; k++) own_block[i * m + k] = corner[i * n + k];
            diagonal[diagonal_offset + first + i] = corner[i * n + i];
        }
        for (long i = 0; i < u; i++)
            for (long k = 0; k < c; k++) own_block[(c + i) * m + k] = -p[i * n + k];
    }
}
