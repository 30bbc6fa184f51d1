## cpu_rows: y = alpha * A x + beta * y on a CPU, where A is contiguous along the summed axis.
##
##            | V | V | V | tail |        V elements fill the vector registers' lanes
##   row 0    | s0_0 ...         |        R rows together share each load of x;
##   row 1    | s1_0 ...         |        U vectors of each row are in flight
##   ...
##   row R-1  | sR_0 ...         |
## The lane sums of N rows become one vector of N sums by log2(N) blends and permutations
## (a transposition in registers), not by N horizontal sums.
##
## One work-item is a group; it takes rows_per_group rows, and with `split` one part of the
## columns: then the last part of a row block to finish adds the parts, in their order.
## The tail reads the last V columns and blanks those that were summed before: V <= n.
##
## elem, real: element, and the real type of the sums.  P: reals of an element.  C = V * P; T, S:
## types of C and of P reals.  conj: conjugate A.  unit: a_sum == 1 (else V == 1).  x_unit, y_unit:
## x_step, y_step == 1.  split: columns are split between groups.
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

<%def name="row_sums(rows, unroll)">
// sums[0 .. ${rows}) = ${rows} rows of a times x, over the columns [first, last).
static inline void row_sums_${rows}(__global const ${elem.name}_t *a, long a_out, long a_sum,
    __global const ${elem.name}_t *x, long x_step, long first, long last, ${real} *sums)
{
    ${T} xv${"" if not elem.complex else ", xs"};
% for k in range(rows):
    __global const ${elem.name}_t *a${k} = a + ${k} * a_out;
% for u in range(unroll):
    ${T} s${k}_${u} = 0${f", t{k}_{u} = 0" if elem.complex else ""};
% endfor
% endfor
    long j = first;
    for (; j + ${V * unroll} <= last; j += ${V * unroll}) {
% for u in range(unroll):
        ${load_x(f"j + {u * V}")}
% for k in range(rows):
${gemv.dot_step(elem, f"s{k}_{u}", f"t{k}_{u}", f"load{V}(a{k} + (j + {u * V}){'' if unit else ' * a_sum'})", "xv", "xs")}\
% endfor
% endfor
    }
% if unroll > 1:
    for (; j + ${V} <= last; j += ${V}) {
        ${load_x("j")}
% for k in range(rows):
${gemv.dot_step(elem, f"s{k}_0", f"t{k}_0", f"load{V}(a{k} + j{'' if unit else ' * a_sum'})", "xv", "xs")}\
% endfor
    }
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
% endfor
    ${lanes.transposed_sums(real, C, [name for k in range(rows) for name in ([f"s{k}_0", f"t{k}_0"] if elem.complex else [f"s{k}_0"])], "sums")}
}
</%def>
<%def name="load_x(j)">xv = ${f"load{V}(x + {j})" if x_unit else f"gather{V}(x + ({j}) * x_step, x_step)"};${f" xs = {gemv.module.swapped('xv', C)};" if elem.complex else ""}</%def>

${row_sums(R, U)}
% if R > 1:
${row_sums(1, 4)}
% endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemv_cpu_rows(${gemv.arguments(elem, real, split)}, const long rows_per_group)
{
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
        row_sums_${rows}(a + i * a_out, a_out, a_sum, x, x_step, first, last, sums);
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
