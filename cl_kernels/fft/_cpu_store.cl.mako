## The rows of a result of fft/cpu, fetched from scratch memory (_cpu_fetch) and stored.
##
##   define(target, V, planes, twisted, number)
##       store<number>(s, place, n, flip, scale, y, rows, row, lane_step, lane, live, limit, limit_row, first, begin,
##             limit_batch, factors, t, t_row, t_lane, t_conjugate, fine, coarse)
##
## s, place, factors to coarse   scratch memory with n rows, and what results are multiplied by: see _cpu_fetch
## y, row, lane_step             where row 0 of lane `lane` is stored, the first of `live`; strides in numbers
## number `at` of a sequence     at = k * limit_row + lane + l is stored for row k of lane lane + l of the strip:
##    it exists, and is stored, if first <= k < rows and begin <= at < limit
##    folded: only the first half is stored.  If 2 at > limit (behind the middle), the conjugate is stored as number
##    limit - at.  Exceptions are lane 0 and lane limit_row / 2 (limit_batch / 2 if there is limit_batch): their numbers
##    behind the middle are not stored, because the mirror images are in the same lane
## limit_batch                   then limit and begin are relative to the number of row 0 of lane 0, which depends on
##                               the last batch axis; in folded rows limit is relative to twice that number
<%namespace name="fetched" file="/fft/_cpu_fetch.cl.mako"/>
<%def name="define(target, V, planes, twisted, number)">
<%
form, size = target.form, target.components
complex_rows = size == 2
sides = range(planes)
limit_batch = ", long limit_batch" if target.stepped else ""
parameters = arguments = ""
if target.factor:
    parameters, arguments = ", __global const real_t *factors", ", factors"
if target.times:
    parameters += ", __global const real_t *t, long t_row, long t_lane, int t_conjugate"
    arguments += ", t, t_row, t_lane, t_conjugate"
if twisted:
    parameters += ", __global const real_t *fine, __global const real_t *coarse"
    arguments += ", fine, coarse"
%>
${fetched.define(target, planes, V, twisted, number, parameters)}\
// Store the lanes of row k from `skip` on, number by number.
static inline void store_lanes${number}(__global real_t *y, long k, long row, long lane_step, long lane, long skip,
    long live, long limit, long limit_row${limit_batch}, const vec_t *re, const vec_t *im)
{
    real_t lane_re[${V * planes}]${f", lane_im[{V * planes}]" if complex_rows else ""};
% for plane in sides:
    vstore${V}(re[${plane}], ${plane}, lane_re);
% if complex_rows:
    vstore${V}(im[${plane}], ${plane}, lane_im);
% endif
% endfor
% if form == "folded":
    for (int l = 0; l < live; l++) {
        const long at = k * limit_row + lane + l;
        const bool mirrored = 2 * at > limit;
        if (mirrored && (lane + l == 0 || 2 * (lane + l) == ${"limit_batch" if target.stepped else "limit_row"}))
            continue;
        __global real_t *to = y + 2 * ((mirrored ? limit - at : at) - lane) * lane_step;
        to[0] = lane_re[l], to[1] = mirrored ? -lane_im[l] : lane_im[l];
    }
% else:
    for (int l = skip; l < live; l++) {
        __global real_t *to = y + ${size} * (k * row + l * lane_step);
        to[0] = lane_re[l]${", to[1] = lane_im[l]" if complex_rows else ""};
    }
% endif
}

static void store${number}(__global const vec_t *s, __global const int *place, long n, int flip, real_t scale,
    __global real_t *y, long rows, long row, long lane_step, long lane, long live, long limit, long limit_row,
    long first, long begin${limit_batch}${parameters})
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
% if form == "folded":
    //@optimised_twice: by clang and by PoCL (portable_gpu/runtime/pocl_bodies.py)
% endif
    long k = first;
    vec_t re[${planes}], im[${planes}];
% if target.layout == "along":
    if (row == 1 && live == ${V * planes})
        // V rows of all lanes: a vector of the V lanes of each row, then, transposed, of the V rows of each lane.
        for (; k + ${V} <= rows; k += ${V}) {
            vec_t block_re[${planes}][${V}]${f", block_im[{planes}][{V}]" if complex_rows else ""};
% for r in range(V):
            fetch${number}(s, place, k + ${r}, n, flip, scale, live, 0, limit, re, im${arguments});
% for plane in sides:
            block_re[${plane}][${r}] = re[${plane}]${f", block_im[{plane}][{r}] = im[{plane}]" if complex_rows else ""};
% endfor
% endfor
% for plane in sides:
            transpose(block_re[${plane}]);
% if complex_rows:
            transpose(block_im[${plane}]);
% endif
% for r in range(V):
<% of_re, of_im = f"block_re[{plane}][{r}]", f"block_im[{plane}][{r}]" %>\
            ${(f"store_complex(y + 2 * (k + {plane * V + r} * lane_step), {of_re}, {of_im})" if complex_rows else
                f"store_real(y + k + {plane * V + r} * lane_step, {of_re})")};
% endfor
% endfor
        }
% endif
    for (; k < rows; k++) {
        const long at = k * limit_row + lane, skip = -minimum(at - begin, 0);
        fetch${number}(s, place, k, n, flip, scale, live, at, limit, re, im${arguments});
% if form == "folded":
        const long filled = live;
% else:
        const long filled = minimum(live, limit - at);
% endif
% if target.layout == "across":
        if (filled == ${V * planes} && skip == 0${" && 2 * (at + live - 1) <= limit" if form == "folded" else ""}) {
% for plane in sides:
            ${(f"store_complex(y + 2 * (k * row + {plane * V}), re[{plane}], im[{plane}])"
                if complex_rows else f"store_real(y + k * row + {plane * V}, re[{plane}])")};
% endfor
        } else
% endif
            store_lanes${number}(y, k, row, lane_step, lane, skip, filled, limit,
                limit_row${", limit_batch" if target.stepped else ""}, re, im);
    }
}
</%def>
