## The sums of rows of A times x on a CPU, lane by lane.
##
##   row k | V | V | ... | V | tail |      vector u of each `unroll` vectors is added to s<k>_<u>
##
## The columns after the last whole vector are read as one vector, the tail.  A tail "inside" the row is its last V
## columns, of which those that are in whole vectors too count as 0.  A tail "across" the row's end, for rows shorter
## than V, is the row and the elements after it, which count as 0; near A's end (not is_loadable) it is a copy.
##
## elem, real, V, C, P, T, E, conj, unit, x_unit, tail, whole: as in cpu_rows.  mask: the integer type of the size of a
## real.  s<k>_<u>, t<k>_<u>: sums of row k, chain u (t: see _gemv).  xv, xs: a vector of x; with re and im swapped.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>

## Declare the tail's arguments of lane_sums: its first column tail_at, the lanes that count (fresh), x there (x_tail).
<%def name="declare_tail()">\
<% lanes = gemv.module.build(mask, [str(i // P) for i in range(C)]) %>\
% if tail == "inside":
    const long tail_at = last - ${V};
    const ${vector(mask, C)} fresh = ${lanes} >= (${mask})(${V} - (last - first) % ${V});
    ${T} x_tail = 0;
    if (first < last) x_tail = ${load_x("tail_at")};
% else:
    const long tail_at = 0;
    const ${vector(mask, C)} fresh = ${lanes} < (${mask})last;
    const ${T} x_tail = load_row(x, x_step, last);
% endif
</%def>

## load_row(p, step, count): a row of fewer than V elements; the rest are 0.
<%def name="define_load_row()">
static inline ${T} load_row(__global const ${elem.name}_t *p, long step, long count)
{
    ${real} values[${C}] __attribute__((aligned(sizeof(${T}))));
    for (int k = 0; k < ${V}; ++k) *((${E} *)values + k) = k < count ? load_one(p + k * step) : (${E})(0);
    return *(const ${T} *)values;
}
</%def>

## The function that sums `rows` rows, with `unroll` chains of additions for each.
<%def name="lane_sums(rows, unroll)">
// lanes[0 .. ${rows}) = ${rows} rows of a times x, over the columns [first, last), lane by lane.
static inline void lane_sums_${rows}(__global const ${elem.name}_t *a, long a_out, long a_sum,
    __global const ${elem.name}_t *x, long x_step, long first, long last, ${T} *lanes${tail_parameters()})
{
    ${T} xv${"" if not elem.complex else ", xs"};
% for k in range(rows):
    __global const ${elem.name}_t *a${k} = a${f" + {k} * a_out" if k else ""};
% for u in range(unroll):
    ${T} s${k}_${u} = 0${f", t{k}_{u} = 0" if elem.complex else ""};
% endfor
% endfor
    long j = first;
% if whole:
    if (j < last) {
% for q in range(whole):
${add_vectors(rows, str(q * V), 0)}\
% endfor
    }
% else:
    for (; j + ${V * unroll} <= last; j += ${V * unroll}) {
% for u in range(unroll):
${add_vectors(rows, f"j + {u * V}", u)}\
% endfor
    }
% if unroll > 1:
    for (; j + ${V} <= last; j += ${V}) {
${add_vectors(rows, "j", 0)}\
    }
% endif
% if tail != "none":
${add_tail(rows)}\
% endif
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

## The declarations of the parameters of lane_sums that declare_tail sets.
<%def name="tail_parameters()">\
${f", long tail_at, {vector(mask, C)} fresh, {T} x_tail" if tail != "none" else ""}\
${", bool is_loadable" if tail == "across" else ""}\
</%def>

## Add the products of the tail to the sums.
<%def name="add_tail(rows)">\
    if (j < last) {
        xv = x_tail;
% if elem.complex:
        xs = ${gemv.module.swapped("xv", C)};
% endif
% for k in range(rows):
<% across = f"is_loadable ? load{V}(a{k}) : load_row(a{k}, 1, last)" %>\
        const ${T} tail${k} = ${across if tail == "across" else f"load{V}(a{k} + tail_at)"};
        s${k}_0 += fresh ? tail${k} * xv : (${T})(0);
% if elem.complex:
        t${k}_0 += fresh ? tail${k} * xs : (${T})(0);
% endif
% endfor
    }
</%def>

## Add the products of one vector of each row, the one at column `at`, to the sums with the number `chain`.
<%def name="add_vectors(rows, at, chain)">
        xv = ${load_x(at)};${f" xs = {gemv.module.swapped('xv', C)};" if elem.complex else ""}
% for k in range(rows):
<% loaded = f"load{V}(a{k} + ({at}){'' if unit else ' * a_sum'})" %>\
${gemv.dot_step(elem, f"s{k}_{chain}", f"t{k}_{chain}", loaded, "xv", "xs")}\
% endfor
</%def>

## An expression: the vector of x at column `at`.
<%def name="load_x(at)">${f"load{V}(x + {at})" if x_unit else f"gather{V}(x + ({at}) * x_step, x_step)"}</%def>
