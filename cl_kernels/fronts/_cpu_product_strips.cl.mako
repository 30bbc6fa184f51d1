## Products of L with several columns of B, for solves with fronts on CPUs: R rows (4, or 2 of complex numbers) by W
## columns at a time, with sums in registers; `subtract` (_cpu_products) computes the remainder.
##
##       subtract_forward(to, l, leading, y, count, n, rows, length)       to[i] -= l[i][k] y[k]
##       subtract_backward(to, l, leading, x, row, count, n, rows, length) to[k] -= conj(l[i][k]) x[row[i]]
##
## summed over k < length, or i < rows.  to[i], y[k] and x[i] are rows of n elements, `count` elements apart; rows of l
## are `leading` apart.  strip_forward, strip_backward: R rows of `to` and W columns.  Complex numbers: as in
## factor/_rows, which has vec_t and VEC.  c<r>_<v>, d<r>_<v>: row r, vector v of the sums.
## e: Element.  policy.vector: V, the reals of a vector.
<%def name="define(e, policy)"><%
    V, C, R, NV = policy.vector, e.components, 4 // e.components, 2
    W, E = NV * V // C, f"__global {e.name}_t"
%>
% for name in ("forward", "backward"):
<% back = name == "backward" %>
static inline void strip_${name}(${E} *to_, ${E} *l, long leading, ${E} *y,
    ${"__global const int *row, " if back else ""}long count, long length)
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

// Both functions: the strips have rows before `strip_end` of `to`, and its columns before `strip_columns`.
static inline void subtract_forward(${E} *to, ${E} *l, long leading, ${E} *y, long count, long n, long rows,
    long length)
{
    const long strip_end = rows / ${R} * ${R}, strip_columns = n / ${W} * ${W};
    for (long r = 0; r < strip_columns; r += ${W})
        for (long i = 0; i < strip_end; i += ${R})
            strip_forward(to + i * count + r, l + i * leading, leading, y + r, count, length);
    for (long i = 0; i < rows; i++) {
        const long from = i < strip_end ? strip_columns : 0;
        for (long k = 0; from < n && k < length; k++)
            subtract(to + i * count + from, l[i * leading + k], y + k * count + from, n - from);
    }
}

static inline void subtract_backward(${E} *to, ${E} *l, long leading, ${E} *x, __global const int *row, long count,
    long n, long rows, long length)
{
    const long strip_end = length / ${R} * ${R}, strip_columns = n / ${W} * ${W};
    for (long r = 0; r < strip_columns; r += ${W})
        for (long k = 0; k < strip_end; k += ${R})
            strip_backward(to + k * count + r, l + k, leading, x + r, row, count, rows);
    for (long k = 0; k < length; k++) {
        const long from = k < strip_end ? strip_columns : 0;
        for (long i = 0; from < n && i < rows; i++)
            subtract(to + k * count + from, CONJ(l[i * leading + k]), x + row[i] * count + from, n - from);
    }
}
</%def>
