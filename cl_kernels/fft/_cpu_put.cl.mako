## Store a row of a source as one row of scratch, or as two; forms as in _cpu_load.
##
##   define(source, planes, k)     put<k>(s, i, n, flip, re, im); with factors multiply<k>(re, im, factor)
<%def name="define(source, planes, k)">
<% form = source.form %>\
// The values of one row become those of scratch.
static inline void put${k}(__global vec_t *s, long i, long n, int flip, const vec_t *re, const vec_t *im)
{
% if form == "half":
    const bool own = i == 0 || 2 * i == n;  // both are real there
    s[2 * i + flip] = own ? re[0] : re[0] - im[1];
    s[2 * i + 1 - flip] = own ? re[1] : im[0] + re[1];
    if (!own) {
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
    vec_t c, d;
    load_complex(factor, &c, &d);
% else:
    const real_t c = factor[0], d = factor[1];
% endif
    const vec_t kept = *re;
    *re = kept * c - *im * d;
    *im = kept * d + *im * c;
}
% endif

</%def>
