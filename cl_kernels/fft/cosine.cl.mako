## cosine: discrete cosine and sine transforms; the computations before and after the Fourier transform that they use.
##
##      x ──before──▶ numbers ──Fourier transform──▶ numbers ──after──▶ y
##
## For a line x of n numbers, with h = n / 2 and a table w of roots of one.  `before` makes the numbers that the last
## column describes; `after` reads their transform z.  With root(p, q) = exp(-2 pi i p / q) the table is
##   two, three   w[k] = root(k, 4n)                 for k < n
##   four         w[k] = root(4k + 1, 8n)            for k < h, then w[h + k] = root(k, 2n) for k < h
##   odd          w[k] = root(k, 4n)                 for k < n, then w[n + k] = root(2k + 1, 8n) for k < n
##
##   two     before   x[0], x[2], ..., then those of odd index in reverse order   n real
##           after    y[k] = 2 Re(w[k] z[k]), z[k] = conj(z[n - k]) if 2 k > n     z: n / 2 + 1 complex
##   three   before   conj(w[k]) (x[k] - i x[n - k])                              n / 2 + 1 complex
##           after    the inverse of the permutation of `two`                    z: n real
##   four    before   (x[2 j] + i x[n - 1 - 2 j]) w[j]                            h complex
##           after    y[2 k] = 2 Re(w[h + k] z[k]), y[n - 1 - 2 k] = -2 Im(...)
##   odd     before   x[j] w[j]; the transform of `four` for odd lengths         n complex, then n zeros
##           after    y[k] = 2 Re(w[n + k] z[k])
##   one     before   the line and its mirror image, 2 (n - 1) in all            real
##           after    y[k] = Re z[k]
##   sine    before   0, the line, 0, its negative mirror image: 2 (n + 1)       real
##           after    y[k] = -Im z[k + 1]
##
## kind  as above: two, three, one are DCTs of types II, III, I; four and odd are of type IV; sine is the DST of type I
## stage  before or after      real  the Element      rank  batch axes
## In the text: a, b  the line's numbers in x and in y;  r  number k of b;  p  a number of z;  u, v  numbers of the line
## reversed, alternating  arguments that make sine transforms of cosine transforms: see `number`
## edge  a factor of number 0 of a line, and for kind one of its last number, too
## A work-item computes `chunk` of the `numbers` of a line, which has `chunks` of these; adjacent work-items have
## adjacent lines.  There are `items` work-items with a chunk.
<%include file="/common/prelude.cl.mako"/>
<%
digits = axes.digits("batch", rank, "line")
# C text of the place of a line in x, or in y.
at = lambda name: f"{name}_offset" + "".join(f" + {digit} * {name}_batch{d}" for d, digit in enumerate(digits))
before = stage == "before"
complex_in = not before and kind != "three"
complex_out = before and kind in ("three", "four", "odd")
%>
typedef ${real.real} real_t;

// Number j of a line of n numbers, of which those from `count` on are zeros.  reversed: counted from the end.
// alternating: numbers with odd j are negated.  edge: see above.
static inline real_t number(__global const real_t *x, long j, long n, long step, long count, int reversed,
    int alternating, real_t edge)
{
    const long i = reversed ? n - 1 - j : j;
    const real_t v = i < count ? x[i * step] : 0;
    return (alternating && j % 2 ? -v : v) * (j == 0${" || j == n - 1" if kind == "one" else ""} ? edge : (real_t)1);
}
#define X(j) number(a, j, n, x_step, count, reversed, alternating, edge)

__kernel
void ${kernel(stage)}
{
    const long item = get_global_id(0);
    if (item >= items)
        return;
    const long lines = items / chunks, line = item % lines, begin = item / lines * chunk;
    __global const real_t *a = x + ${2 if complex_in else 1} * (${at("x")});
    __global real_t *b = y + ${2 if complex_out else 1} * (${at("y")});
    for (long k = begin; k < min(begin + chunk, numbers); k++) {
% if before:
        __global real_t *r = b + ${2 if complex_out else 1} * k * y_step;
% if kind == "two":
        r[0] = X(2 * k < n ? 2 * k : 2 * n - 1 - 2 * k);
% elif kind == "one":
        r[0] = X(k < n ? k : 2 * (n - 1) - k);
% elif kind == "sine":
        r[0] = k == 0 || k == n + 1 ? 0 : k <= n ? X(k - 1) : -X(2 * n + 1 - k);
% elif kind == "three":
        const real_t u = X(k), v = k ? X(n - k) : 0, root_re = w[2 * k], root_im = w[2 * k + 1];
        r[0] = root_re * u - root_im * v, r[1] = -root_im * u - root_re * v;
% else:
        const real_t u = ${"X(2 * k)" if kind == "four" else "X(k)"},
            v = ${"X(n - 1 - 2 * k)" if kind == "four" else "0"};
        const real_t root_re = w[2 * k], root_im = w[2 * k + 1];
        r[0] = u * root_re - v * root_im, r[1] = u * root_im + v * root_re;
% endif
% else:
% if kind == "two":
        const long m = min(k, n - k);
        __global const real_t *p = a + 2 * m * x_step;
        real_t result = 2 * (w[2 * k] * p[0] - w[2 * k + 1] * (k > m ? -p[1] : p[1]));
% elif kind == "three":
        real_t result = a[(k % 2 ? n - 1 - k / 2 : k / 2) * x_step];
% elif kind == "four":
        const long j = k % 2 ? (n - 1 - k) / 2 : k / 2;
        __global const real_t *p = a + 2 * j * x_step;
        const real_t root_re = w[n + 2 * j], root_im = w[n + 2 * j + 1];
        real_t result = k % 2 ? -2 * (p[0] * root_im + p[1] * root_re) : 2 * (p[0] * root_re - p[1] * root_im);
% elif kind == "odd":
        __global const real_t *p = a + 2 * k * x_step;
        real_t result = 2 * (p[0] * w[2 * (n + k)] - p[1] * w[2 * (n + k) + 1]);
% elif kind == "one":
        real_t result = a[2 * k * x_step];
% else:
        real_t result = -a[2 * (k + 1) * x_step + 1];
% endif
        if (k == 0${" || k == n - 1" if kind == "one" else ""})
            result *= edge;
        b[(reversed ? n - 1 - k : k) * y_step] = alternating && k % 2 ? -result : result;
% endif
    }
}
