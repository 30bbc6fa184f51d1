## The rows of a result of fft/cpu, read from scratch memory and multiplied by their factors: re and im of each of
## `planes` transforms of a lane.
##
##   define(target, planes, V, twisted, number, more)
##       fetch<number>(s, place, k, n, flip, scale, live, at, limit, re, im,
##                     factors, t, t_row, t_lane, t_conjugate, fine, coarse)
## s, place  scratch memory, whose rows are two vectors, and the row of each result; flip: 1 for the inverse
##           transform, whose real and imaginary parts are exchanged; live, at, limit: see _cpu_load and _cpu_times
## more      the declarations of those parameters from `factors` on that the function has
## rotated   a form of rows: as half, two transforms of real sequences, of which the real parts are stored after
##           multiplication by factors; other forms, and factors, as in _cpu_load
## times     numbers are multiplied by those of t, whose strides are t_row and t_lane, before they are stored
## twisted   whether row k of lane l is multiplied by exp(-2 pi i k l / whole), the product of a number of the table
##           `coarse`, for the strip's first lane, and one of the table `fine`, for the distance of lane l from it
<%namespace name="times" file="/fft/_cpu_times.cl.mako"/>
<%def name="define(target, planes, V, twisted, number, more)">
<% form, sides = target.form, range(planes) %>\
% if target.times:
${times.define(target, V, planes, number)}
% endif

// Row k of each transform.  `at` is the number, in its sequence, of the row's first lane.
static inline void fetch${number}(__global const vec_t *s, __global const int *place, long k, long n, int flip,
    real_t scale, long live, long at, long limit, vec_t *re, vec_t *im${more})
{
    __global const vec_t *p = s + 2 * place[k];
% if form in ("half", "rotated"):
    __global const vec_t *q = s + 2 * place[k ? n - k : 0];
    // With Z the transform of u + iv: U[k] = (Z[k] + conj Z[n - k]) / 2, V[k] = (Z[k] - conj Z[n - k]) / 2i.
    const real_t half_scale = scale / 2;
    re[0] = (p[flip] + q[flip]) * half_scale;
    im[0] = (p[1 - flip] - q[1 - flip]) * half_scale;
    re[1] = (p[1 - flip] + q[1 - flip]) * half_scale;
    im[1] = (q[flip] - p[flip]) * half_scale;
% elif form == "real" and planes == 2:
    re[0] = p[flip] * scale;
    re[1] = p[1 - flip] * scale;
% else:
    re[0] = p[flip] * scale;
    im[0] = p[1 - flip] * scale;
% endif
% if twisted:
    const real_t c = coarse[2 * k], d = flip ? -coarse[2 * k + 1] : coarse[2 * k + 1];
    __global const vec_t *f = (__global const vec_t *)fine + ${2 * planes} * k;
% for l in sides:
    {
        const vec_t e = f[${2 * l}], g = flip ? -f[${2 * l + 1}] : f[${2 * l + 1}];
        const vec_t u = e * c - g * d, v = e * d + g * c, old_re = re[${l}];
        re[${l}] = old_re * u - im[${l}] * v;
        im[${l}] = old_re * v + im[${l}] * u;
    }
% endfor
% endif
% if target.factor:
    {
% if target.factor == "lanes":
        vec_t u, v;
        load_complex(factors + 2 * at, &u, &v);
% else:
        const real_t u = factors[2 * k], v = factors[2 * k + 1];
% endif
% for l in sides:
        const vec_t old_re${l} = re[${l}];
        re[${l}] = old_re${l} * u - im[${l}] * v;
        im[${l}] = old_re${l} * v + im[${l}] * u;
% endfor
    }
% endif
% if target.times:
    vec_t c[${planes}], d[${planes}];
    load_times${number}(t, k, t_row, t_lane, live, at, limit, c, d);
% for l in sides:
    {
        const vec_t e = t_conjugate ? -d[${l}] : d[${l}], old_re = re[${l}];
        re[${l}] = old_re * c[${l}] - im[${l}] * e;
        im[${l}] = old_re * e + im[${l}] * c[${l}];
    }
% endfor
% endif
}

</%def>
