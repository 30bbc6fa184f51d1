## cpu_rows: y = alpha * A x + beta * y on a CPU, where A is contiguous along the summed axis.
##
##            | V | V | V | tail |        V elements fill the vector registers' lanes
##   row 0    | s0_0 ...         |        side_by_side: R rows share each load of x, and U vectors
##   row 1    | s1_0 ...         |        of each are in flight; else R rows, one after the other,
##   ...                                  in the order of memory (short rows)
##   row R-1  | sR_0 ...         |
## The lane sums of R rows become one vector of R sums by log2(R) blends and permutations
## (a transposition in registers), not by R horizontal sums.
##
## One work-item is a group; it takes rows_per_group rows, and with `split` one part of the
## columns: then the last part of a row block to finish adds the parts, in their order.
## The tail reads the last V columns and blanks those that were summed before: V <= n.
##
## elem, real: element, and the real type of the sums.  P: reals of an element.  C = V * P; T, S:
## types of C and of P reals.  conj: conjugate A.  unit: a_sum == 1 (else V == 1).  x_unit, y_unit:
## x_step, y_step == 1.  split: columns are split between groups.  Q: whole vectors of a row, where
## they are written out and those of x stay in registers; 0 for a loop.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="lanes" file="/gemv/_lanes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(elem)}
${gemv.scalars(elem, real)}
${gemv.adjacent(elem, real, V, False)}
% if not x_unit:
${gemv.gather(elem, real, V)}
% endif
${lanes.finish(elem, real, C, y_unit)}

<%def name="load_x(j)">xv = ${f"load{V}(x + {j})" if x_unit else f"gather{V}(x + ({j}) * x_step, x_step)"};${f" xs = {gemv.module.swapped('xv', C)};" if elem.complex else ""}</%def>

<%def name="add_vectors(rows, at, chain)">
        ${load_x(at)}
% for k in range(rows):
${gemv.dot_step(elem, f"s{k}_{chain}", f"t{k}_{chain}", f"load{V}(a{k} + ({at}){'' if unit else ' * a_sum'})", "xv", "xs")}\
% endfor
</%def>

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
% if Q:
    if (j < last) {
% for q in range(Q):
${add_vectors(rows, str(q * V), 0)}\
% endfor
        j = ${Q * V};
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
% endif
% if V > 1:
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

<%def name="fold_lanes(rows)">
// sums[0 .. ${rows * P}) = the sums over lanes.
static inline void fold_lanes_${rows}(const ${T} *lanes, ${real} *sums)
{
% for i in range(rows * P):
    const ${T} v${i} = lanes[${i}];
% endfor
    ${lanes.transposed_sums(real, C, [f"v{i}" for i in range(rows * P)], "sums")}
}
</%def>

% for rows in ([R, 1] if R > 1 else [1]):
${fold_lanes(rows)}
% endfor
% if side_by_side and R > 1:
${lane_sums(R, U)}
% endif
${lane_sums(1, 1 if Q else 4 // P)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemv_cpu_rows(${gemv.arguments(elem, real, split)}, const long rows_per_group)
{
    ${T} lanes[${R * P}];
    ${real} sums[${R * P}] __attribute__((aligned(64)));
% if split:
    const uint part = get_group_id(0) % parts;
    const long first_row = get_group_id(0) / parts * rows_per_group;
    const long first = part * part_size, last = first + part_size < n ? first + part_size : n;
    __global ${real} *own = (__global ${real} *)partial + part * m * ${P};
% else:
    const long first_row = get_group_id(0) * rows_per_group;
    const long first = 0, last = n;
% endif
    const long last_row = first_row + rows_per_group < m ? first_row + rows_per_group : m;
    a += a_offset;
    x += x_offset;
    y += y_offset;
    long i = first_row;
% for rows in ([R, 1] if R > 1 else [1]):
    for (; i + ${rows} <= last_row; i += ${rows}) {
% if side_by_side or rows == 1:
        lane_sums_${rows}(a + i * a_out, a_out, a_sum, x, x_step, first, last, lanes);
% else:
#pragma unroll 1
        for (int k = 0; k < ${rows}; ++k)
            lane_sums_1(a + (i + k) * a_out, a_out, a_sum, x, x_step, first, last, lanes + k * ${P});
% endif
        fold_lanes_${rows}(lanes, sums);
% if split:
        for (int k = 0; k < ${rows * P}; ++k) own[i * ${P} + k] = sums[k];
% else:
        finish(y + i * y_step, y_step, sums, ${rows}, alpha, beta, reads_y);
% endif
    }
% endfor
% if split:
    ${lanes.fold_parts(elem, real, "get_group_id(0) / parts", "first_row", "last_row")}
% endif
}
