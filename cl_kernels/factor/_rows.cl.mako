## A step of cpu_cholesky, cpu_solve and cpu_subtrees: compute the next R rows of X = L^-1 B, in strips of NR columns.
##
##      t: L^H                x: X above row j,      x[j .. j + R) -= sum of conj(t[k][j ..]) x[k] over k < j
##      +---+---------+       +-- then B -+          Then the R rows are solved in registers, by the square D
##   k  |   | * * *   |    k  | NV vectors|          at t[j][j]; `inverse` has the reciprocals of its diagonal
##      +---+---------+       +-----------+          elements.
##   j      |D|            j  | R rows    |
##
## R: policy.rows.  NV: policy.vectors, the vectors of a strip's row, which has NR elements.  Scratch has L^H, with rows
## `ld` elements apart.  In a factorisation X is in scratch too, right of D, which `define_square` computes.
##
##   define(e, policy, real_diagonal)
##       solve_rows(t, ld, inverse, x, ldx, j)              t, x: row 0, at the first columns of D and of the strip
##   define_square(e, policy)
##       factor_rows(t, ld, inverse, j, n, failed, pivot)   the strip that begins with D; *failed: the first column
##                                                          below n without a positive pivot; *pivot: that pivot
##
## c<r>_<v>: row r, vector v (of V reals) of the R rows.  Complex numbers: c is the sum of the products by the scalars'
## real parts, and d that by their imaginary parts; d is multiplied by i once, at the end.  C: reals of an element.
## swapped: the components of a vector of pairs (re, im), with the two of each pair exchanged.
<%def name="types(e, policy)"><% V, swapped = policy.vector, "1032547698badcfe"[: policy.vector] %>
typedef ${e.real}${V} vec_t;
typedef ${e.real}${V} vec_u __attribute__((aligned(${e.itemsize // e.components})));
#define VEC(p) (*(__global vec_u *)(p))
#define TIMES_I(v) ((v).s${swapped} * (vec_t)(${", ".join(["-1", "1"] * (V // 2))}))
</%def>
## Declare `to`, the pointer to the R rows; c<r>_<v>, these rows less the products of the rows above; `a`, that to D.
<%def name="inner(e, policy)"><% R, NV, V, C = policy.rows, policy.vectors, policy.vector, e.components %>
    __global const real_t *a = (__global const real_t *)t, *b = (__global const real_t *)x;
% for r, v in [(r, v) for r in range(R) for v in range(NV)]:
    vec_t c${r}_${v} = VEC(b + (j + ${r}) * ldx * ${C} + ${v * V})${f", d{r}_{v} = 0" if e.complex else ""};
% endfor
    for (long k = 0; k < j;) {
        ${" ".join(f"const vec_t b{v} = VEC(b + {v * V});" for v in range(NV))}
% for r, part in [(r, part) for r in range(R) for part in range(C)]:
        {
            const vec_t s = (vec_t)(a[${r * C + part}]);
            ${" ".join(f"{'cd'[part]}{r}_{v} -= s * b{v};" for v in range(NV))}
        }
% endfor
        a += ld * ${C}, b += ldx * ${C}, k++;  // not in the head: see runtime/pocl_bodies.py
    }
% for r in range(R) if e.complex else ():
    ${" ".join(f"c{r}_{v} -= TIMES_I(d{r}_{v});" for v in range(NV))}
% endfor
    __global real_t *to = (__global real_t *)(x + j * ldx);
</%def>

## Subtract the product of row r, which is known, and the number re + i im from row q.  i<v>: i times row r.
<%def name="eliminate(e, policy, r, q, re, im)">
    ${" ".join(f"c{q}_{v} -= (vec_t)({re}) * c{r}_{v};" for v in range(policy.vectors))}
% if e.complex:
    ${" ".join(f"c{q}_{v} += (vec_t)({im}) * i{v};" for v in range(policy.vectors))}
% endif
</%def>

<%def name="define(e, policy, real_diagonal)"><%
    R, NV, V, C = policy.rows, policy.vectors, policy.vector, e.components
    is_complex = e.complex and not real_diagonal
    # C text of vector v of row r, times re + i im.
    scaled = lambda r, v: f"re * c{r}_{v}" + (f" + im * TIMES_I(c{r}_{v})" if is_complex else "")
%>
static inline void solve_rows(__global const ${e.name}_t *t, long ld, __global const ${e.name}_t *inverse,
                              __global ${e.name}_t *x, long ldx, long j)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
${inner(e, policy)}
    __global const real_t *inv = (__global const real_t *)(inverse + j);
% for r in range(R):
    {
        const real_t re = inv[${r * C}]${f", im = inv[{r * C + 1}]" if is_complex else ""};
        ${" ".join(f"c{r}_{v} = {scaled(r, v)};" for v in range(NV))}
% if e.complex and r + 1 < R:
        ${" ".join(f"const vec_t i{v} = TIMES_I(c{r}_{v});" for v in range(NV))}
% endif
% for q in range(r + 1, R):
${eliminate(e, policy, r, q, f"a[{r} * {C} * ld + {q * C}]", f"a[{r} * {C} * ld + {q * C + 1}]")}\
% endfor
        ${" ".join(f"VEC(to + {r} * {C} * ldx + {v * V}) = c{r}_{v};" for v in range(NV))}
    }
% endfor
}
</%def>
<%def name="define_square(e, policy)"><%
    R, NV, V, C = policy.rows, policy.vectors, policy.vector, e.components
    # C text of the real part (0) or the imaginary part (1) of element q of row r.
    lane = lambda r, q, part: f"c{r}_{(C * q + part) // V}.s{(C * q + part) % V:x}"
%>
static inline void factor_rows(__global ${e.name}_t *t, long ld, __global ${e.name}_t *inverse,
                               long j, long n, long *failed, real_t *bad_pivot)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    __global ${e.name}_t *x = t;
    const long ldx = ld;
${inner(e, policy)}
    __global real_t *inv = (__global real_t *)(inverse + j);
% for r in range(R):
    {
% if e.complex:
        ${lane(r, r, 1)} = 0;
% endif
        const real_t pivot = ${lane(r, r, 0)};
        if (!(pivot > 0 && pivot < (real_t)INFINITY) && *failed < 0 && j + ${r} < n) {
            *failed = j + ${r};
            *bad_pivot = pivot;
        }
        const real_t re = *failed < 0 ? 1 / SQRT(pivot) : (real_t)NAN;
        inv[${r * C}] = re;
        ${" ".join(f"c{r}_{v} *= re;" for v in range(NV))}
% if e.complex and r + 1 < R:
        ${" ".join(f"const vec_t i{v} = TIMES_I(c{r}_{v});" for v in range(NV))}
% endif
% for q in range(r + 1, R):
${eliminate(e, policy, r, q, lane(r, q, 0), lane(r, q, 1))}\
% endfor
        ${" ".join(f"VEC(to + {r} * {C} * ldx + {v * V}) = c{r}_{v};" for v in range(NV))}
    }
% endfor
}
</%def>
