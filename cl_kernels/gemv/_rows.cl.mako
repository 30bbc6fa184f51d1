## What dot_rows and long_rows share: L work-items sum R rows of a times x.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>

## The accumulator of R rows as lanes exchange it: fields re0 (im0) re1 (im1) ...
##
## sum_rows(lane, first, last): lane takes columns first + lane * V, then every L * V-th vector; the
## columns past the last whole vector are taken one by one.  R rows share each load of x.
##   | lane 0 | lane 1 | ... | lane L-1 | lane 0 | ...      V elements each
<%def name="sum_rows(elem, real, T, P, C, V, R, L, conj, unit, x_vector)">
static inline acc_t sum_rows(__global const ${elem.name}_t *a, long a_out, long a_sum, long row, long m,
    __global const ${elem.name}_t *x, long x_step, long lane, long first, long last)
{
% for k in range(R):
    // A row beyond the last repeats that one; its sum is not stored.
    __global const ${elem.name}_t *a${k} = a + (row + ${k} < m ? row + ${k} : m - 1) * a_out;
    ${T} s${k} = 0${f", t{k} = 0" if elem.complex else ""};
% endfor
    long j = first + lane * ${V};
    for (; j + ${V} <= last; j += ${L * V}) {
        const ${T} xv = ${f"load{V}(x + j)" if x_vector else f"gather{V}(x + j * x_step, x_step)"};
% if elem.complex:
        const ${T} xs = ${gemv.module.swapped("xv", C)};
% endif
% for k in range(R):
        const ${T} v${k} = load${V}(a${k} + j${"" if unit else " * a_sum"});
% endfor
% for k in range(R):
${gemv.dot_step(elem, f"s{k}", f"t{k}", f"v{k}", "xv", "xs")}\
% endfor
    }
% if V > 1:
    for (j = last - (last - first) % ${V} + lane; j < last; j += ${L}) {
        const ${vector(real, P)} xv = load_one(x + j * x_step);
% for k in range(R):
        const ${vector(real, P)} v${k} = load_one(a${k} + j);
        ${gemv.module.head(f"s{k}", P)} += v${k} * xv;
% if elem.complex:
        ${gemv.module.head(f"t{k}", P)} += v${k} * xv.yx;
% endif
% endfor
    }
% endif
    acc_t sums;
% for k in range(R):
${gemv.signed(elem, real, C, conj, f"s{k}", f"t{k}")}\
    sums.re${k} = ${gemv.module.lane_sum(f"s{k}", C)};
% if elem.complex:
    sums.im${k} = ${gemv.module.lane_sum(f"t{k}", C)};
% endif
% endfor
    return sums;
}
</%def>

## Store the R sums that this work-item holds.
<%def name="put_rows(elem, real, R)">
% for k in range(R):
        if (row + ${k} < m) put(y + (row + ${k}) * y_step, ${f"({real}2)(sums.re{k}, sums.im{k})" if elem.complex else f"sums.re{k}"}, alpha, beta, reads_y);
% endfor
</%def>
