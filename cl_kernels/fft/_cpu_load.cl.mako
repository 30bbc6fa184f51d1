## The rows of a source of fft/cpu, loaded to scratch memory (_cpu_put).  A row has one number of each lane, which are
## `planes` vectors of V.
##
##   define(source, V, planes, k)
##       load_rows<k>(s, n, flip, x, rows, row, lane_step, lane, live, limit, limit_row, factors)
##
## source     ops.fft.passes.RenderedOperand         k     a suffix of the functions
## s          scratch memory: n rows of two vectors, real and imaginary parts (exchanged, if flip is 1)
## x          the number of row 0 of lane `lane`, the first of `live` lanes of this strip
## row, lane_step  strides of x between rows and between lanes, in numbers; one of them is 1 if the source's layout is
##            `along` (rows are adjacent) or `across` (lanes are adjacent)
## rows, limit     which numbers exist: row i of lane l is number i * limit_row + l of a sequence.  Rows from `rows` on
##            and numbers from `limit` on are zeros, where a sequence has fewer numbers than the transform
## factors    complex numbers, one for each row or for each number of the sequence, that multiply the source
## Forms of a row:
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
// Load row i, lane by lane.  Only the first `live` lanes have numbers; others are zeros.
static inline void load_lanes${k}(__global const real_t *x, long i, long row, long lane_step, long lane, long live,
    long limit, long limit_row, vec_t *re, vec_t *im)
{
    real_t lane_re[${V * planes}], lane_im[${V * planes}];
    for (int l = 0; l < ${V * planes}; l++)
        lane_re[l] = lane_im[l] = 0;
% if form == "folded":
    for (int l = 0; l < live; l++) {
        const long at = i * limit_row + lane + l;
        const bool mirrored = 2 * at > limit;
        __global const real_t *from = x + 2 * ((mirrored ? limit - at : at) - lane) * lane_step;
        lane_re[l] = from[0], lane_im[l] = mirrored ? -from[1] : from[1];
    }
% else:
    for (int l = 0; l < live; l++) {
        __global const real_t *from = x + ${size} * (i * row + l * lane_step);
        lane_re[l] = from[0]${", lane_im[l] = from[1]" if complex_rows else ""};
    }
% endif
% for plane in sides:
    re[${plane}] = vload${V}(${plane}, lane_re), im[${plane}] = vload${V}(${plane}, lane_im);
% endfor
}

static void load_rows${k}(__global vec_t *s, long n, int flip, __global const real_t *x, long rows, long row,
    long lane_step, long lane, long live, long limit, long limit_row${factors})
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    long i = 0;
    vec_t re[${planes}], im[${planes}];
% for plane in sides:
    re[${plane}] = im[${plane}] = 0;
% endfor
% if source.layout == "along":
    if (row == 1 && live == ${V * planes})
        // V rows of all lanes: a vector of the V rows of each lane, then, transposed, of the V lanes of each row.
        for (; i + ${V} <= rows; i += ${V}) {
            vec_t block_re[${planes}][${V}]${f", block_im[{planes}][{V}]" if complex_rows else ""};
% for plane in sides:
% for r in range(V):
<% to_re, to_im = f"block_re[{plane}][{r}]", f"block_im[{plane}][{r}]" %>\
            ${(f"load_complex(x + 2 * (i + {plane * V + r} * lane_step), &{to_re}, &{to_im})" if complex_rows else
                f"{to_re} = load(x + i + {plane * V + r} * lane_step)")};
% endfor
            transpose(block_re[${plane}]);
% if complex_rows:
            transpose(block_im[${plane}]);
% endif
% endfor
% for r in range(V):
% for plane in sides:
            re[${plane}] = block_re[${plane}][${r}],
            im[${plane}] = ${f"block_im[{plane}][{r}]" if complex_rows else "0"};
% endfor
% if source.factor:
            multiply${k}(re, im, factors + 2 * (i + ${r}));
% endif
            put${k}(s, i + ${r}, n, flip, re, im);
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
% for plane in sides:
            ${(f"load_complex(x + 2 * (i * row + {plane * V}), &re[{plane}], &im[{plane}])"
                if complex_rows else f"re[{plane}] = load(x + i * row + {plane * V}), im[{plane}] = 0")};
% endfor
        } else
% endif
            load_lanes${k}(x, i, row, lane_step, lane, filled, limit, limit_row, re, im);
% if source.factor:
        multiply${k}(re, im, factors + 2 * ${"(i * limit_row + lane)" if source.factor == "lanes" else "i"});
% endif
        put${k}(s, i, n, flip, re, im);
    }
% for plane in sides:
    re[${plane}] = im[${plane}] = 0;
% endfor
    for (; i < ${"n / 2 + 1" if form == "half" else "n"}; i++)
        put${k}(s, i, n, flip, re, im);
}
</%def>
