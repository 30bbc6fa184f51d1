## The elements of the inverse Z = A^-1 in the pattern of small fronts, on a GPU (selected inversion).  Each work-group
## of `lanes` work-items takes every get_num_groups(0)-th front of the list; their parents have been computed before.
##
##        c     u           X = L11^-1: one work-item computes a column;  W = L21 X
##      +-----+             Z22: the elements of the parent's Z with this front's rows and columns
##   c  | Z11 |             P = Z22 W,  Z21 = -P
##      +-----+-----+       Z11 = X^H X + W^H P
##   u  | Z21 | Z22 |
##      +-----+-----+       A leaf stores only the diagonal, because no front reads its block.
##
## Names in the kernel: c, u, m = c + u; x, p: the pointers to [X; W] and P, by rows of c elements; z22: Z22, by rows
## of `step` elements.
##
## z         the blocks, m x m by rows, whose lower triangles are valid; block_start: the start of each front's block
## which     the list of `count` fronts
## scratch   of a group, `size` elements: [X; W] of m x c, P of u x c (panel_size elements each), and a leaf's Z22
## diagonal  the diagonal of Z in the permuted numbering; this kernel stores that of Z11
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
${epilogue.arithmetic(e)}
${numbers.parts(e)}

__kernel ${group.of_size(lanes)}
void ${kernel("inverse")}
{
    const int t = get_local_id(0);
    ${E} *x = scratch + get_group_id(0) * size, *p = x + panel_size;
    for (long item = get_group_id(0); item < count; item += get_num_groups(0)) {
        const long s = which[item];
${front_.front("s", only=("columns", "rows", "panel", "leading", "row_start", "first", "child_start", "child_end",
    "parent"))}
        const int c = (int)columns, u = (int)rows, m = c + u, parent_or_0 = parent < 0 ? 0 : (int)parent;
${front_.front("parent_or_0", "parent_", ("columns", "rows"))}
        const bool has_children = child_end > child_start;
        const long line = parent_columns + parent_rows;
        __global const ${e.name}_t *l = factor + factor_offset + panel;
        __global const ${e.name}_t *parent_block = z + z_offset + block_start[parent_or_0];
        __global const int *place = relative + row_start;
        ${E} *own_block = z + z_offset + block_start[s],
            *z22 = has_children ? own_block + (long)c * m + c : p + panel_size;
        const int step = has_children ? m : u;
        // Z22 from the parent's block, whose rows have `line` elements.
        for (int k = t; k < u * u; k += ${lanes}) {
            const int i = k / u, j = k % u;
            if (j > i) continue;
            const value_t v = ${e.name}_load(parent_block + place[i] * line + place[j]);
            ${e.name}_store(z22 + (long)i * step + j, v);
            if (j < i) ${e.name}_store(z22 + (long)j * step + i, CONJ(v));
        }
        // X: column j by forward substitution.
        for (int j = t; j < c; j += ${lanes})
            for (int i = 0; i < c; ++i) {
                value_t v = i == j ? AS_VALUE(1) : (value_t)(0), sum = (value_t)(0);
                for (int k = j; k < i; ++k)
                    MAD(sum, ${e.name}_load(l + i * leading + k), ${e.name}_load(x + k * c + j));
                v -= sum;
                ${e.name}_store(x + i * c + j, v * (1 / REAL(${e.name}_load(l + i * leading + i))));
            }
        barrier(CLK_GLOBAL_MEM_FENCE);
        // W, element by element.
        for (int k = t; k < u * c; k += ${lanes}) {
            const int i = c + k / c, j = k % c;
            value_t sum = (value_t)(0);
            for (int r = j; r < c; ++r) MAD(sum, ${e.name}_load(l + i * leading + r), ${e.name}_load(x + r * c + j));
            ${e.name}_store(x + i * c + j, sum);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        // P and Z21, four rows i of a column j at a time; rows beyond the last repeat it.
        for (int k = t; k < (u + 3) / 4 * c; k += ${lanes}) {
            const int i = k / c * 4, j = k % c;
% for r in range(4):
            value_t sum${r} = (value_t)(0);
            __global const ${e.name}_t *row${r} = z22 + (long)min(i + ${r}, u - 1) * step;
% endfor
            for (int r = 0; r < u; ++r) {
                const value_t w = ${e.name}_load(x + (c + r) * c + j);
% for r in range(4):
                MAD(sum${r}, ${e.name}_load(row${r} + r), w);
% endfor
            }
% for r in range(4):
            if (i + ${r} < u) {
                ${e.name}_store(p + (i + ${r}) * c + j, sum${r});
                if (has_children) ${e.name}_store(own_block + (long)(c + i + ${r}) * m + j, -sum${r});
            }
% endfor
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        // Z11, element (i, j) by element; of a leaf only the diagonal.
        const int z11_elements = has_children ? c * c : c;
        for (int k = t; k < z11_elements; k += ${lanes}) {
            const int i = has_children ? k / c : k, j = has_children ? k % c : k;
            if (j > i) continue;
            value_t sum = (value_t)(0);
            for (int r = i; r < c; ++r) MAD(sum, CONJ(${e.name}_load(x + r * c + i)), ${e.name}_load(x + r * c + j));
            for (int r = 0; r < u; ++r)
                MAD(sum, CONJ(${e.name}_load(x + (c + r) * c + i)), ${e.name}_load(p + r * c + j));
            if (has_children) ${e.name}_store(own_block + (long)i * m + j, sum);
            if (i == j) ${e.name}_store(diagonal + diagonal_offset + first + i, sum);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
