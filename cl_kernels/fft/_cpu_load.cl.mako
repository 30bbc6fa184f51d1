## The rows of a source of fft/cpu, loaded to scratch memory (_cpu_put).  A row has one number of each lane, which are
## `planes` vectors of V.
##
##   define(source, V, planes, k)
##       load_rows<k>(s, n, flip, a, rows, row, lane_step, lane, live, limit, limit_row, factors)
##
## source: ops.fft.passes.RenderedOperand.  k: a suffix of the functions.  row, lane_step: strides between rows and
## lanes.  a: the first number of the first of `live` lanes, which is lane number `lane`.  Rows from `rows` on are
## zeros.  In row i, lanes from limit - i * limit_row on are zeros too, where a sequence has fewer numbers than the
## transform.
## Forms of a row:
##
##   complex   complex numbers            real   real numbers: re, and im where planes is 2
##   ordered   real, the even rows first and then the odd ones from the end: those of a cosine transform
##   half      the rows 0 .. n/2 of two transforms of real sequences
##   folded    complex numbers of a sequence of `limit`, of which only the first half is stored: number j behind the
##             middle is the conjugate of number limit - j.  Row i of a lane is number i * limit_row + lane
<%namespace name="row" file="/fft/_cpu_put.cl.mako"/>
<%def name="define(source, V, planes, k)">
<%
form, size = source.form, source.components
complex_rows = size == 2
sides = range(planes)
factors = ", __global const real_t *factors" if source.factor else ""
%>
${row.define(source, planes, k)}\
// Load row i number by number.  Only the first `live` lanes have numbers; others are zeros.
static inline void load_lanes${k}(__global const real_t *a, long i, long row, long lane_step, long lane, long live,
    long limit, long limit_row, vec_t *re, vec_t *im)
{
    real_t r[${V * planes}], m[${V * planes}];
    for (int l = 0; l < ${V * planes}; l++)
        r[l] = m[l] = 0;
% if form == "folded":
    for (int l = 0; l < live; l++) {
        const long at = i * limit_row + lane + l;
        const bool mirrored = 2 * at > limit;
        __global const real_t *p = a + 2 * ((mirrored ? limit - at : at) - lane) * lane_step;
        r[l] = p[0], m[l] = mirrored ? -p[1] : p[1];
    }
% else:
    for (int l = 0; l < live; l++) {
        __global const real_t *p = a + ${size} * (i * row + l * lane_step);
        r[l] = p[0]${", m[l] = p[1]" if complex_rows else ""};
    }
% endif
% for p in sides:
    re[${p}] = vload${V}(${p}, r), im[${p}] = vload${V}(${p}, m);
% endfor
}

static void load_rows${k}(__global vec_t *s, long n, int flip, __global const real_t *a, long rows, long row,
    long lane_step, long lane, long live, long limit, long limit_row${factors})
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    long i = 0;
    vec_t re[${planes}], im[${planes}];
% for p in sides:
    re[${p}] = im[${p}] = 0;
% endfor
% if source.layout == "along":
    if (row == 1 && live == ${V * planes})
        for (; i + ${V} <= rows; i += ${V}) {
            vec_t r[${planes}][${V}]${f", m[{planes}][{V}]" if complex_rows else ""};
% for p in sides:
% for l in range(V):
            ${(f"load_complex(a + 2 * (i + {p * V + l} * lane_step), &r[{p}][{l}], &m[{p}][{l}])"
                if complex_rows else f"r[{p}][{l}] = load(a + i + {p * V + l} * lane_step)")};
% endfor
            transpose(r[${p}]);
% if complex_rows:
            transpose(m[${p}]);
% endif
% endfor
% for l in range(V):
% for p in sides:
            re[${p}] = r[${p}][${l}], im[${p}] = ${f"m[{p}][{l}]" if complex_rows else "0"};
% endfor
% if source.factor:
            multiply${k}(re, im, factors + 2 * (i + ${l}));
% endif
            put${k}(s, i + ${l}, n, flip, re, im);
% endfor
        }
% endif
    for (; i < rows; i++) {
% if form == "folded":
        const long filled = live;
% else:
        const long filled = minimum(live, limit - i * limit_row - lane);
% endif
% if source.layout == "across":
        if (filled == ${V * planes}
            ${"&& 2 * (i * limit_row + lane + live - 1) <= limit" if form == "folded" else ""}) {
% for p in sides:
            ${(f"load_complex(a + 2 * (i * row + {p * V}), &re[{p}], &im[{p}])"
                if complex_rows else f"re[{p}] = load(a + i * row + {p * V}), im[{p}] = 0")};
% endfor
        } else
% endif
            load_lanes${k}(a, i, row, lane_step, lane, filled, limit, limit_row, re, im);
% if source.factor:
        multiply${k}(re, im, factors + 2 * ${"(i * limit_row + lane)" if source.factor == "lanes" else "i"});
% endif
        put${k}(s, i, n, flip, re, im);
    }
% for p in sides:
    re[${p}] = im[${p}] = 0;
% endfor
    for (; i < ${"n / 2 + 1" if form == "half" else "n"}; i++)
        put${k}(s, i, n, flip, re, im);
}
</%def>
