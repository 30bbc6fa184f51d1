## The rows of a result of fft/cpu, fetched from scratch memory (_cpu_fetch) and stored.
##
##   define(target, V, planes, twisted, number)
##       store<number>(s, place, n, flip, scale, b, rows, row, lane_step, lane, live, limit, limit_row, first, begin,
##             limit_batch, factors, t, t_row, t_lane, t_conjugate, fine, coarse)
##
## Arguments and forms as in _cpu_load.  Of a cropped result, rows before `first` are not stored.  In row k, lanes
## before begin - k * limit_row are not stored either.
##
## In a folded row the conjugate of a number behind the middle is stored at its mirror image before the middle.  The
## exceptions are lane 0 and lane limit_row / 2 (limit_batch / 2 if there is limit_batch): their numbers behind the
## middle are not stored, because the mirror images are in the same lane.  With limit_batch, limit and begin are
## relative to the number of row 0 of lane 0; in folded rows limit is relative to twice that number.
<%namespace name="fetched" file="/fft/_cpu_fetch.cl.mako"/>
<%def name="define(target, V, planes, twisted, number)">
<%
form, size = target.form, target.components
complex_rows = size == 2
sides = range(planes)
step = ", long limit_batch" if target.stepped else ""
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
static inline void store_lanes${number}(__global real_t *b, long k, long row, long lane_step, long lane, long skip,
    long live, long limit, long limit_row${step}, const vec_t *re, const vec_t *im)
{
    real_t r[${V * planes}]${f", m[{V * planes}]" if complex_rows else ""};
% for p in sides:
    vstore${V}(re[${p}], ${p}, r);
% if complex_rows:
    vstore${V}(im[${p}], ${p}, m);
% endif
% endfor
% if form == "folded":
    for (int l = 0; l < live; l++) {
        const long at = k * limit_row + lane + l;
        const bool mirrored = 2 * at > limit;
        if (mirrored && (lane + l == 0 || 2 * (lane + l) == ${"limit_batch" if target.stepped else "limit_row"}))
            continue;
        __global real_t *p = b + 2 * ((mirrored ? limit - at : at) - lane) * lane_step;
        p[0] = r[l], p[1] = mirrored ? -m[l] : m[l];
    }
% else:
    for (int l = skip; l < live; l++) {
        __global real_t *p = b + ${size} * (k * row + l * lane_step);
        p[0] = r[l]${", p[1] = m[l]" if complex_rows else ""};
    }
% endif
}

static void store${number}(__global const vec_t *s, __global const int *place, long n, int flip, real_t scale,
    __global real_t *b, long rows, long row, long lane_step, long lane, long live, long limit, long limit_row,
    long first, long begin${step}${parameters})
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
% if form == "folded":
    //@optimised_twice: by clang and by PoCL (portable_gpu/runtime/pocl_bodies.py)
% endif
    long k = first;
    vec_t re[${planes}], im[${planes}];
% if target.layout == "along":
    if (row == 1 && live == ${V * planes})
        for (; k + ${V} <= rows; k += ${V}) {
            vec_t r[${planes}][${V}]${f", m[{planes}][{V}]" if complex_rows else ""};
% for l in range(V):
            fetch${number}(s, place, k + ${l}, n, flip, scale, live, 0, limit, re, im${arguments});
% for p in sides:
            r[${p}][${l}] = re[${p}]${f", m[{p}][{l}] = im[{p}]" if complex_rows else ""};
% endfor
% endfor
% for p in sides:
            transpose(r[${p}]);
% if complex_rows:
            transpose(m[${p}]);
% endif
% for l in range(V):
            ${(f"store_complex(b + 2 * (k + {p * V + l} * lane_step), r[{p}][{l}], m[{p}][{l}])"
                if complex_rows else f"store_real(b + k + {p * V + l} * lane_step, r[{p}][{l}])")};
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
% for p in sides:
            ${(f"store_complex(b + 2 * (k * row + {p * V}), re[{p}], im[{p}])"
                if complex_rows else f"store_real(b + k * row + {p * V}, re[{p}])")};
% endfor
        } else
% endif
            store_lanes${number}(b, k, row, lane_step, lane, skip, filled, limit,
                limit_row${", limit_batch" if target.stepped else ""}, re, im);
    }
}
</%def>
