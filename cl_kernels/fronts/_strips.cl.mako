## For cpu_subtrees: the factorisation of one front's own columns by one work-item of a CPU.  Scratch memory has the
## front as T = L^H, an upper triangle, in strips of NR columns.
##
##      +--+--+--+      Strip q has rows 0 .. (q + 1) NR - 1 and one unused row; a row has NR adjacent elements.
##      |\ |  |  |      `pad` columns of the identity precede the own columns, so that these end at a multiple
##      +-\|  |  |      of R.  Elements to the left of the diagonal are not used.
##         |\ |  |
##         +-\|  |      For each block of K columns: factorise the square on the diagonal, solve the strips
##            |\ |      to the right of it, and subtract the product of these K rows from the triangle below.
##            +-\|
##
## e, policy   as in factor/_rows, whose functions compute R rows of T at a time
## K           columns of a block, a multiple of NR
## NB          how many strips, with K rows each, fit into half of the second-level cache
##   define(e, policy, K, NB)
##       strip(q)                                          the index of the first element of strip q
##       factor_front(t, inverse, c, m, failed, pivot)     factorise the first c rows of T, which has m rows; both
##           counts include the padding.  inverse: the reciprocals of the diagonal.  If *failed is negative and a pivot
##           is not positive, *failed becomes its row, and *pivot the pivot.
<%namespace name="rows" file="/factor/_rows.cl.mako"/>

<%def name="define(e, policy, K, NB)"><%
    R, NR, NV, V, C = policy.rows, policy.strip(e), policy.vectors, policy.vector, e.components
    E = f"__global {e.name}_t"
%>
static inline long strip(long q) { return ${NR} * (${NR} * q * (q + 1) / 2 + q); }

// to[r] -= sum over k < count of conj(left[k][r]) right[k], for r < R.  Rows of NR elements follow each other.
// With complex numbers c sums the products by real parts of `left`, and d those by imaginary parts.
static inline void subtract_rows(${E} *left, ${E} *right, ${E} *to_, long count)
{
    __global const real_t *a = (__global const real_t *)left, *b = (__global const real_t *)right;
    __global real_t *to = (__global real_t *)to_;
% for r, v in [(r, v) for r in range(R) for v in range(NV)]:
    vec_t c${r}_${v} = VEC(to + ${r * NR * C + v * V})${f", d{r}_{v} = 0" if e.complex else ""};
% endfor
    for (long k = 0; k < count;) {
        ${" ".join(f"const vec_t b{v} = VEC(b + {v * V});" for v in range(NV))}
% for r, part in [(r, part) for r in range(R) for part in range(C)]:
        {
            const vec_t s = (vec_t)(a[${r * C + part}]);
            ${" ".join(f"{'cd'[part]}{r}_{v} -= s * b{v};" for v in range(NV))}
        }
% endfor
        a += ${NR * C}, b += ${NR * C}, k++;  // not in the loop's head: see portable_gpu/runtime/pocl_bodies.py
    }
% for r, v in [(r, v) for r in range(R) for v in range(NV)]:
    VEC(to + ${r * NR * C + v * V}) = c${r}_${v}${f" - TIMES_I(d{r}_{v})" if e.complex else ""};
% endfor
}

static inline void factor_front(${E} *t, ${E} *inverse, long c, long m, long *failed, real_t *pivot)
{
    const long strips = (m + ${NR - 1}) / ${NR};
    for (long first = 0; first < c; first += ${K}) {
        // The block has columns [first, end); strip `last` has the last of them.
        const long end = first + ${K} < c ? first + ${K} : c, last = (end - 1) / ${NR};
        for (long j = first; j < end; j += ${R}) {
            ${E} *square = t + strip(j / ${NR}) + first * ${NR} + j % ${NR};
            const bool had_failed = *failed >= 0;
            factor_rows(square, ${NR}, inverse + first, j - first, end - first, failed, pivot);
            if (!had_failed && *failed >= 0) *failed += first;  // it was relative to the block
            for (long q = j / ${NR} + 1; q <= last; q++)
                solve_rows(square, ${NR}, inverse + first, t + strip(q) + first * ${NR}, ${NR}, j - first);
        }
        for (long q = last + 1; q < strips; q++)
            for (long j = first; j < end; j += ${R})
                solve_rows(t + strip(j / ${NR}) + first * ${NR} + j % ${NR}, ${NR}, inverse + first,
                           t + strip(q) + first * ${NR}, ${NR}, j - first);
        // Subtract the products of these rows from all rows j below, NB strips [q0, q1) at a time.  The left factor of
        // row j is in strip `left`, which has column j; the right factor is in strip q.
        for (long q0 = end / ${NR}; q0 < strips; q0 += ${NB}) {
            const long q1 = q0 + ${NB} < strips ? q0 + ${NB} : strips;
            for (long left = end / ${NR}; left < q1; left++)
                for (long q = left < q0 ? q0 : left; q < q1; q++)
                    for (long j = left * ${NR} < end ? end : left * ${NR}; j < (left + 1) * ${NR} && j < m; j += ${R})
                        subtract_rows(t + strip(left) + first * ${NR} + j % ${NR}, t + strip(q) + first * ${NR},
                                      t + strip(q) + j * ${NR}, end - first);
        }
    }
}
</%def>
