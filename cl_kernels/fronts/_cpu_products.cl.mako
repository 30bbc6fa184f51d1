## Products of rows of L with columns of B, for solves with fronts on CPUs: with several adjacent columns (see also
## _cpu_product_strips), and with one column.  Rows of l are `leading` elements apart.
##
##       subtract, scale                                             several columns
##       subtract_products, subtract_row, subtract_transposed        one column
## e: Element.  policy.vector: V, the elements of a vector.  vec_t, VEC: see factor/_rows.
<%def name="define(e, policy)"><% E, V = f"__global {e.name}_t", policy.vector %>
// y[r] -= a x[r] for `count` columns r
static inline void subtract(${E} *restrict y, const value_t a, ${E} *restrict x, long count)
{
    for (long r = 0; r < count; r++) y[r] -= MUL(a, x[r]);
}

static inline void scale(${E} *x, real_t factor, long count)
{
    for (long r = 0; r < count; r++) x[r] *= factor;
}

// to[i] -= sum over k < length of l[i][k] y[k], four rows i at a time.  Real numbers are in vectors along k.
static inline void subtract_products(${E} *l, long leading, ${E} *y, ${E} *to, long rows, long length)
{
    for (long i = 0; i < rows; i += 4) {
        value_t s0 = (value_t)(0), s1 = s0, s2 = s0, s3 = s0;
        // Rows beyond the last repeat it; their sums are not used.
        ${E} *l0 = l + i * leading, *l1 = l0 + (i + 1 < rows) * leading, *l2 = l1 + (i + 2 < rows) * leading,
            *l3 = l2 + (i + 3 < rows) * leading;
        long k = 0;
% if not e.complex:
        vec_t v0 = 0, v1 = 0, v2 = 0, v3 = 0;
        for (; k + ${V} <= length; k += ${V}) {
            const vec_t v = VEC(y + k);
            v0 += VEC(l0 + k) * v;
            v1 += VEC(l1 + k) * v;
            v2 += VEC(l2 + k) * v;
            v3 += VEC(l3 + k) * v;
        }
% for r in range(4):
        s${r} = ${" + ".join(f"v{r}.s{v:x}" for v in range(V))};
% endfor
% endif
        for (; k < length; k++) {
            const value_t v = y[k];
            s0 += MUL(l0[k], v);
            s1 += MUL(l1[k], v);
            s2 += MUL(l2[k], v);
            s3 += MUL(l3[k], v);
        }
        to[i] -= s0;
        if (i + 1 < rows) to[i + 1] -= s1;
        if (i + 2 < rows) to[i + 2] -= s2;
        if (i + 3 < rows) to[i + 3] -= s3;
    }
}

// y[k] -= conj(l[k]) x
static inline void subtract_row(${E} *restrict y, ${E} *restrict l, const value_t x, long length)
{
    for (long k = 0; k < length; k++) y[k] -= MUL(CONJ(l[k]), x);
}

// y[k] -= the sum of conj(l[i][k]) x[row[i]] over the rows, four at a time.
static inline void subtract_transposed(${E} *restrict y, ${E} *restrict l, long leading, ${E} *x,
    __global const int *row, long rows, long length)
{
    for (long i = 0; i < rows; i += 4) {
        // Rows beyond the last repeat it, times 0.
        const long last = rows - 1 - i, step1 = last > 0, step2 = last > 1, step3 = last > 2;
        ${E} *l0 = l + i * leading, *l1 = l0 + step1 * leading, *l2 = l1 + step2 * leading, *l3 = l2 + step3 * leading;
        const value_t zero = (value_t)(0), x0 = x[row[i]], x1 = step1 ? x[row[i + 1]] : zero,
            x2 = step2 ? x[row[i + 2]] : zero, x3 = step3 ? x[row[i + 3]] : zero;
        for (long k = 0; k < length; k++)
            y[k] -= MUL(CONJ(l0[k]), x0) + MUL(CONJ(l1[k]), x1) + (MUL(CONJ(l2[k]), x2) + MUL(CONJ(l3[k]), x3));
    }
}
</%def>
