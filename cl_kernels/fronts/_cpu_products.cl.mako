## Products of rows of L with columns of B, on CPUs: with several adjacent columns, and with one column.
##
##       subtract, scale        several     subtract_products, subtract_row, subtract_transposed   one
<%def name="define(e, policy)"><% E, V = f"__global {e.name}_t", policy.vector %>
// y[r] -= a x[r]
static inline void subtract(${E} *restrict y, const value_t a, ${E} *restrict x, long count)
{
    for (long r = 0; r < count; r++) y[r] -= MUL(a, x[r]);
}

static inline void scale(${E} *x, real_t factor, long count)
{
    for (long r = 0; r < count; r++) x[r] *= factor;
}

// Sums of `length` products of a row of L and a column of Y, four rows at a time, real ones by vectors.
static inline void subtract_products(${E} *l, long leading, ${E} *y, ${E} *to, long rows, long length)
{
    for (long i = 0; i < rows; i += 4) {
        value_t s0 = (value_t)(0), s1 = s0, s2 = s0, s3 = s0;
        ${E} *l0 = l + i * leading, *l1 = l0 + (i + 1 < rows) * leading, *l2 = l1 + (i + 2 < rows) * leading, *l3 = l2 + (i + 3 < rows) * leading;
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
static inline void subtract_transposed(${E} *restrict y, ${E} *restrict l, long leading, ${E} *x, __global const int *row, long rows, long length)
{
    for (long i = 0; i < rows; i += 4) {
        const long last = rows - 1 - i, step1 = last > 0, step2 = last > 1, step3 = last > 2;
        ${E} *l0 = l + i * leading, *l1 = l0 + step1 * leading, *l2 = l1 + step2 * leading, *l3 = l2 + step3 * leading;
        const value_t zero = (value_t)(0), x0 = x[row[i]], x1 = step1 ? x[row[i + 1]] : zero, x2 = step2 ? x[row[i + 2]] : zero, x3 = step3 ? x[row[i + 3]] : zero;
        for (long k = 0; k < length; k++)
            y[k] -= MUL(CONJ(l0[k]), x0) + MUL(CONJ(l1[k]), x1) + (MUL(CONJ(l2[k]), x2) + MUL(CONJ(l3[k]), x3));
    }
}
</%def>

## Four rows of a product by W columns of B, with sums in registers; `subtract` computes the remainder.
##       subtract_forward(to, l, leading, y, count, n, rows, length)       to[i] -= l[i][k] y[k]
##       subtract_backward(to, l, leading, x, row, count, n, rows, length) to[k] -= conj(l[i][k]) x[row[i]]
<%def name="define_strips(e, policy)"><%
    V, C, R, NV = policy.vector, e.components, 4 // e.components, 2
    W, E = NV * V // C, f"__global {e.name}_t"
%>
% for name in ("forward", "backward"):
<% back = name == "backward" %>
static inline void strip_${name}(${E} *to_, ${E} *l, long leading, ${E} *y, ${"__global const int *row, " if back else ""}long count, long length)
{
    __global real_t *to = (__global real_t *)to_;
    __global const real_t *a = (__global const real_t *)l;
% for r, v in [(r, v) for r in range(R) for v in range(NV)]:
    vec_t c${r}_${v} = VEC(to + ${r} * count * ${C} + ${v * V})${f", d{r}_{v} = 0" if e.complex else ""};
% endfor
    for (long k = 0; k < length; k++, a += ${f"leading * {C}" if back else C}) {
        __global const real_t *b = (__global const real_t *)(y + ${"row[k]" if back else "k"} * count);
        ${" ".join(f"const vec_t b{v} = VEC(b + {v * V});" for v in range(NV))}
% for r, part in [(r, part) for r in range(R) for part in range(C)]:
        {
            const vec_t s = (vec_t)(a[${f"{r * C + part}" if back else f"{r} * leading * {C} + {part}"}]);
            ${" ".join(f"{'cd'[part]}{r}_{v} {'+' if part and back else '-'}= s * b{v};" for v in range(NV))}
        }
% endfor
    }
% for r, v in [(r, v) for r in range(R) for v in range(NV)]:
    VEC(to + ${r} * count * ${C} + ${v * V}) = c${r}_${v}${f" + TIMES_I(d{r}_{v})" if e.complex else ""};
% endfor
}
% endfor

static inline void subtract_forward(${E} *to, ${E} *l, long leading, ${E} *y, long count, long n, long rows, long length)
{
    const long whole = rows / ${R} * ${R}, strips = n / ${W} * ${W};
    for (long r = 0; r < strips; r += ${W})
        for (long i = 0; i < whole; i += ${R}) strip_forward(to + i * count + r, l + i * leading, leading, y + r, count, length);
    for (long i = 0; i < rows; i++) {
        const long from = i < whole ? strips : 0;
        for (long k = 0; from < n && k < length; k++) subtract(to + i * count + from, l[i * leading + k], y + k * count + from, n - from);
    }
}

static inline void subtract_backward(${E} *to, ${E} *l, long leading, ${E} *x, __global const int *row, long count, long n, long rows, long length)
{
    const long whole = length / ${R} * ${R}, strips = n / ${W} * ${W};
    for (long r = 0; r < strips; r += ${W})
        for (long k = 0; k < whole; k += ${R}) strip_backward(to + k * count + r, l + k, leading, x + r, row, count, rows);
    for (long k = 0; k < length; k++) {
        const long from = k < whole ? strips : 0;
        for (long i = 0; from < n && i < rows; i++) subtract(to + k * count + from, CONJ(l[i * leading + k]), x + row[i] * count + from, n - from);
    }
}
</%def>
