## The rows of a result of fft/cpu, read from scratch memory and multiplied by their factors: re and im of each of
## `planes` transforms of a lane.
##
##   define(target, planes, V, twisted, number, more)
##       fetch<number>(s, place, k, n, flip, scale, live, at, limit, re, im,
##                     factors, t, t_row, t_lane, t_conjugate, fine, coarse)
## target    ops.fft.passes.RenderedOperand          number  the suffix of the functions
## s         scratch memory: n rows of two vectors, real and imaginary parts, a number for each lane
## place     place[k]: the row of scratch memory that has result k
## flip      1 for the inverse transform, whose real and imaginary parts are exchanged
## scale     a factor of all results                 live, limit   see _cpu_load
## at        the index, in its sequence, of the number in the row's first lane
## more      the declarations of those parameters from `factors` on that the function has
## twisted   whether row k of lane l is multiplied by exp(-2 pi i k l / twiddle_length).  With l = l0 + j, where l0 is
##           the strip's first lane, this is the product of a number for l0, from the table `coarse` ((re, im) of row k
##           at 2 k), and one for j, from the table `fine` (for each row, two vectors (re, im) of each plane)
##
## Fields of target: `form`, as in _cpu_load, or "rotated": two transforms of real sequences, as with "half", whose
## results are multiplied by factors before their real parts are stored.  factor: as in _cpu_load.  times: whether
## results are multiplied by an array t (conjugated if t_conjugate), whose strides are t_row and t_lane.
<%namespace name="times" file="/fft/_cpu_times.cl.mako"/>
<%def name="define(target, planes, V, twisted, number, more)">
<% form, sides = target.form, range(planes) %>\
% if target.times:
${times.define(target, V, planes, number)}
% endif

// Row k of each transform.
static inline void fetch${number}(__global const vec_t *s, __global const int *place, long k, long n, int flip,
    real_t scale, long live, long at, long limit, vec_t *re, vec_t *im${more})
{
    __global const vec_t *own_row = s + 2 * place[k];
% if form in ("half", "rotated"):
    __global const vec_t *mirror_row = s + 2 * place[k ? n - k : 0];
    // With Z the transform of u + iv: U[k] = (Z[k] + conj Z[n - k]) / 2, V[k] = (Z[k] - conj Z[n - k]) / 2i.
    const real_t half_scale = scale / 2;
    re[0] = (own_row[flip] + mirror_row[flip]) * half_scale;
    im[0] = (own_row[1 - flip] - mirror_row[1 - flip]) * half_scale;
    re[1] = (own_row[1 - flip] + mirror_row[1 - flip]) * half_scale;
    im[1] = (mirror_row[flip] - own_row[flip]) * half_scale;
% elif form == "real" and planes == 2:
    re[0] = own_row[flip] * scale;
    re[1] = own_row[1 - flip] * scale;
% else:
    re[0] = own_row[flip] * scale;
    im[0] = own_row[1 - flip] * scale;
% endif
% if twisted:
    const real_t coarse_re = coarse[2 * k], coarse_im = flip ? -coarse[2 * k + 1] : coarse[2 * k + 1];
    __global const vec_t *fine_row = (__global const vec_t *)fine + ${2 * planes} * k;
% for plane in sides:
    {
        const vec_t fine_re = fine_row[${2 * plane}],
            fine_im = flip ? -fine_row[${2 * plane + 1}] : fine_row[${2 * plane + 1}];
        const vec_t root_re = fine_re * coarse_re - fine_im * coarse_im,
            root_im = fine_re * coarse_im + fine_im * coarse_re, old_re = re[${plane}];
        re[${plane}] = old_re * root_re - im[${plane}] * root_im;
        im[${plane}] = old_re * root_im + im[${plane}] * root_re;
    }
% endfor
% endif
% if target.factor:
    {
% if target.factor == "lanes":
        vec_t factor_re, factor_im;
        load_complex(factors + 2 * at, &factor_re, &factor_im);
% else:
        const real_t factor_re = factors[2 * k], factor_im = factors[2 * k + 1];
% endif
% for plane in sides:
        const vec_t old_re${plane} = re[${plane}];
        re[${plane}] = old_re${plane} * factor_re - im[${plane}] * factor_im;
        im[${plane}] = old_re${plane} * factor_im + im[${plane}] * factor_re;
% endfor
    }
% endif
% if target.times:
    // The numbers of t in this row.
    vec_t times_re[${planes}], times_im[${planes}];
    load_times${number}(t, k, t_row, t_lane, live, at, limit, times_re, times_im);
% for plane in sides:
    {
        const vec_t signed_im = t_conjugate ? -times_im[${plane}] : times_im[${plane}], old_re = re[${plane}];
        re[${plane}] = old_re * times_re[${plane}] - im[${plane}] * signed_im;
        im[${plane}] = old_re * signed_im + im[${plane}] * times_re[${plane}];
    }
% endfor
% endif
}

</%def>
