## The sums of rows of a times x on a CPU, lane by lane.
##
##   row k | V | V | ... | V | tail |      vector u of each `unroll` vectors goes to s<k>_<u>
##
## The tail is the last V columns; those that were summed before are set to 0.
##
## elem, C, P, T, conj, unit, x_unit, whole: as in cpu_rows.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>

<%def name="lane_sums(rows, unroll)">
// lanes[0 .. ${rows}) = ${rows} rows of a times x, over the columns [first, last), lane by lane.
static inline void lane_sums_${rows}(__global const ${elem.name}_t *a, long a_out, long a_sum,
    __global const ${elem.name}_t *x, long x_step, long first, long last, ${T} *lanes)
{
    ${T} xv${"" if not elem.complex else ", xs"};
% for k in range(rows):
    __global const ${elem.name}_t *a${k} = a + ${k} * a_out;
% for u in range(unroll):
    ${T} s${k}_${u} = 0${f", t{k}_{u} = 0" if elem.complex else ""};
% endfor
% endfor
    long j = first;
${whole_vectors(rows, unroll)}\
% if V > 1:
${tail(rows)}\
% endif
% for k in range(rows):
% for u in range(1, unroll):
    s${k}_0 += s${k}_${u};${f" t{k}_0 += t{k}_{u};" if elem.complex else ""}
% endfor
${gemv.signed(elem, real, C, conj, f"s{k}_0", f"t{k}_0")}\
    lanes[${k * P}] = s${k}_0;
% if elem.complex:
    lanes[${k * P + 1}] = t${k}_0;
% endif
% endfor
}
</%def>

## From column j on; with whole, all of them.
<%def name="whole_vectors(rows, unroll)">\
% if whole:
    if (j < last) {
% for q in range(whole):
${add_vectors(rows, str(q * V), 0)}\
% endfor
        j = ${whole * V};
    }
% else:
    for (; j + ${V * unroll} <= last; j += ${V * unroll}) {
% for u in range(unroll):
${add_vectors(rows, f"j + {u * V}", u)}\
% endfor
    }
% endif
% if unroll > 1 and not whole:
    for (; j + ${V} <= last; j += ${V}) {
${add_vectors(rows, "j", 0)}\
    }
% endif
</%def>

<%def name="tail(rows)">\
    if (j < last) {
        const ${vector(mask, C)} fresh = ${gemv.module.build(mask, [str(i // P) for i in range(C)])} >= (${mask})(${V} - (last - j));
        ${T} av;
        ${load_x(f"last - {V}")}
% for k in range(rows):
        av = load${V}(a${k} + last - ${V});
        s${k}_0 += fresh ? av * xv : (${T})(0);
% if elem.complex:
        t${k}_0 += fresh ? av * xs : (${T})(0);
% endif
% endfor
    }
</%def>

## One vector of each row.
<%def name="add_vectors(rows, at, chain)">
        ${load_x(at)}
% for k in range(rows):
${gemv.dot_step(elem, f"s{k}_{chain}", f"t{k}_{chain}", f"load{V}(a{k} + ({at}){'' if unit else ' * a_sum'})", "xv", "xs")}\
% endfor
</%def>

<%def name="load_x(j)">xv = ${f"load{V}(x + {j})" if x_unit else f"gather{V}(x + ({j}) * x_step, x_step)"};${f" xs = {gemv.module.swapped('xv', C)};" if elem.complex else ""}</%def>
