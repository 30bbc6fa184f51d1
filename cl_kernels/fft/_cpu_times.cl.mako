## A part of fft/cpu (_cpu_fetch): the numbers of the array t, by which a row of a result is multiplied.
##
##   define(target, V, planes, number)     load_times<number>(t, k, row, lane_step, live, at, limit, re, im)
##
## target.times: `across` if lanes of t are adjacent, `same` if all have the same number.  number: a suffix.  t: row 0
## of the first of `live` lanes; row, lane_step: its strides in complex numbers.  Forms of a row as in _cpu_load.  Of a
## folded row, `at` is the number of the first lane in its sequence, and limit is the length of the sequence; behind the
## middle the conjugate of the mirror image's number is taken.  re[p], im[p]: plane p of row k.
<%def name="define(target, V, planes, number)">
<%
form, sides = target.form, range(planes)
%>
// Row k of the first `live` lanes of t.  A folded row begins at number `at`.
static inline void load_times${number}(__global const real_t *t, long k, long row, long lane_step, long live, long at,
    long limit, vec_t *re, vec_t *im)
{
% if target.times == "same":
    for (int plane = 0; plane < ${planes}; plane++)
        re[plane] = t[2 * k * row], im[plane] = t[2 * k * row + 1];
% else:
% if target.times == "across":
    if (live == ${V * planes}${" && 2 * (at + live - 1) <= limit" if form == "folded" else ""}) {
% for plane in sides:
        load_complex(t + 2 * (k * row + ${plane * V}), &re[${plane}], &im[${plane}]);
% endfor
        return;
    }
% endif
    real_t lane_re[${V * planes}], lane_im[${V * planes}];
    for (int l = 0; l < ${V * planes}; l++)
        lane_re[l] = lane_im[l] = 0;
    for (int l = 0; l < live; l++) {
% if form == "folded":
        const bool mirrored = 2 * (at + l) > limit;
        const long place = k * row + (mirrored ? limit - 2 * at - l : l) * lane_step;
% else:
        const bool mirrored = false;
        const long place = k * row + l * lane_step;
% endif
        lane_re[l] = t[2 * place], lane_im[l] = mirrored ? -t[2 * place + 1] : t[2 * place + 1];
    }
% for plane in sides:
    re[${plane}] = vload${V}(${plane}, lane_re), im[${plane}] = vload${V}(${plane}, lane_im);
% endfor
% endif
}
</%def>
