## A part of fft/cpu: store a row of a source, which is in registers, in scratch memory s: row i, or rows i and n - i
## for the form half.  Forms: _cpu_load.
##
##   define(source, planes, k)     put<k>(s, i, n, flip, re, im); with factors multiply<k>(re, im, factor), which
##                                 multiplies a row by the complex number, or the vector of numbers, at `factor`
##
## source: ops.fft.passes.RenderedOperand.  k: a suffix of the functions.  n: rows of a transform.  A row of scratch
## memory is a vector of real parts and one of imaginary parts; flip: 1 exchanges them, 0 does not.  re[p], im[p]: plane
## p of the row.  Two real transforms (planes is 2) are the real and imaginary parts of one.
<%def name="define(source, planes, k)">
<% form = source.form %>\
// Store row i of the source.
static inline void put${k}(__global vec_t *s, long i, long n, int flip, const vec_t *re, const vec_t *im)
{
% if form == "half":
    const bool self_mirrored = i == 0 || 2 * i == n;  // row n - i is row i, so both transforms are real there
    s[2 * i + flip] = self_mirrored ? re[0] : re[0] - im[1];
    s[2 * i + 1 - flip] = self_mirrored ? re[1] : im[0] + re[1];
    if (!self_mirrored) {
        s[2 * (n - i) + flip] = re[0] + im[1];
        s[2 * (n - i) + 1 - flip] = re[1] - im[0];
    }
% else:
% if form == "ordered":
    i = i % 2 ? n - 1 - i / 2 : i / 2;
% endif
    s[2 * i + flip] = re[0];
    s[2 * i + 1 - flip] = ${"re[1]" if form in ("real", "ordered") and planes == 2 else "im[0]"};
% endif
}

% if source.factor:
static inline void multiply${k}(vec_t *re, vec_t *im, __global const real_t *factor)
{
% if source.factor == "lanes":
    vec_t factor_re, factor_im;
    load_complex(factor, &factor_re, &factor_im);
% else:
    const real_t factor_re = factor[0], factor_im = factor[1];
% endif
    const vec_t old_re = *re;
    *re = old_re * factor_re - *im * factor_im;
    *im = old_re * factor_im + *im * factor_re;
}
% endif

</%def>
