## The rows of a result, read from scratch memory and multiplied by their factors.
##
##   define(target, planes, V, twisted, number, more)
##       fetch<number>(s, place, k, n, flip, scale, live, at, limit, re, im,
##                     factors, t, t_row, t_lane, t_conjugate, fine, coarse)
## more: the parameters from `factors` on that the function has
##
## Forms and factors as in _cpu_load.
## rotated: rows of two transforms of real sequences; their real parts are stored after multiplication by factors.
## times: the numbers are multiplied by those of t, whose strides are t_row and t_lane, before they are stored.
## twisted: row k of lane l is multiplied by exp(-2 pi i k l / whole), a product of two roots from tables: coarse
## has that of the strip's first lane, fine those from it to the others.
<%namespace name="times" file="/fft/_cpu_times.cl.mako"/>
<%def name="define(target, planes, V, twisted, number, more)">
<% form, sides = target.form, range(planes) %>\
% if target.times:
${times.define(target, V, planes, number)}
% endif

// Row k of each transform; its first number is number `at`.
static inline void fetch${number}(__global const vec_t *s, __global const int *place, long k, long n, int flip,
    real_t scale, long live, long at, long limit, vec_t *re, vec_t *im${more})
{
    __global const vec_t *p = s + 2 * place[k];
% if form in ("half", "rotated"):
    __global const vec_t *q = s + 2 * place[k ? n - k : 0];
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
        const vec_t u = e * c - g * d, v = e * d + g * c, kept = re[${l}];
        re[${l}] = kept * u - im[${l}] * v;
        im[${l}] = kept * v + im[${l}] * u;
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
        const vec_t kept${l} = re[${l}];
        re[${l}] = kept${l} * u - im[${l}] * v;
        im[${l}] = kept${l} * v + im[${l}] * u;
% endfor
    }
% endif
% if target.times:
    vec_t c[${planes}], d[${planes}];
    load_times${number}(t, k, t_row, t_lane, live, at, limit, c, d);
% for l in sides:
    {
        const vec_t e = t_conjugate ? -d[${l}] : d[${l}], kept = re[${l}];
        re[${l}] = kept * c[${l}] - im[${l}] * e;
        im[${l}] = kept * e + im[${l}] * c[${l}];
    }
% endfor
% endif
}

</%def>
