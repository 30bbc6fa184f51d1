## The numbers of the array t, by which a row of a result of fft/cpu is multiplied, number by number.
##
##   define(target, V, planes, number)     load_times<number>(t, k, row, lane_step, live, at, limit, re, im)
##
## t: the first of `live` lanes.  Forms of a row as in _cpu_load.  Of a folded row, `at` is the number of the first lane
## in its sequence, and limit is the length of the sequence.
<%def name="define(target, V, planes, number)">
<%
form, sides = target.form, range(planes)
%>
// Row k of the first `live` lanes of t.  A folded row begins at number `at`.
static inline void load_times${number}(__global const real_t *t, long k, long row, long lane_step, long live, long at,
    long limit, vec_t *re, vec_t *im)
{
% if target.times == "same":
    for (int p = 0; p < ${planes}; p++)
        re[p] = t[2 * k * row], im[p] = t[2 * k * row + 1];
% else:
% if target.times == "across":
    if (live == ${V * planes}${" && 2 * (at + live - 1) <= limit" if form == "folded" else ""}) {
% for p in sides:
        load_complex(t + 2 * (k * row + ${p * V}), &re[${p}], &im[${p}]);
% endfor
        return;
    }
% endif
    real_t r[${V * planes}], m[${V * planes}];
    for (int l = 0; l < ${V * planes}; l++)
        r[l] = m[l] = 0;
    for (int l = 0; l < live; l++) {
% if form == "folded":
        const bool mirrored = 2 * (at + l) > limit;
        const long place = k * row + (mirrored ? limit - 2 * at - l : l) * lane_step;
% else:
        const bool mirrored = false;
        const long place = k * row + l * lane_step;
% endif
        r[l] = t[2 * place], m[l] = mirrored ? -t[2 * place + 1] : t[2 * place + 1];
    }
% for p in sides:
    re[${p}] = vload${V}(${p}, r), im[${p}] = vload${V}(${p}, m);
% endfor
% endif
}
</%def>
