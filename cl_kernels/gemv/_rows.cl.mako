## Common to dot_rows and long_rows: adjacent work-items, the lanes, sum R rows of a times Q vectors x.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>

## sum_rows(a, ..., lane, first, last): one of L lanes sums its columns of [first, last), V adjacent ones at a time;
## the columns after the last whole vector are summed one by one.  R rows share each load of x.
##
##   columns from first on   | lane 0 | lane 1 | ... | lane L-1 | lane 0 | ...      V elements each
##
## The result is an accumulator, acc_t, with the field re<row>_<vector>, and im<row>_<vector> if elements are complex.
## With `staggered` a lane sums the columns from `start` to last before those from first to start; start is a multiple
## of L * V columns after first.  With vectors_per_load > 1 (then V and x_pitch are 1) one load reads the elements of
## this number of vectors, which are adjacent.
## s<k>_<q>, t<k>_<q>: the sums of row k and vector q; t only if elements are complex (see _gemv).  The parameters are
## those of dot_rows.
<%def name="sum_rows(elem, real, T, P, C, V, R, Q, L, conj, unit, x_vector, vectors_per_load=1, staggered=False)">
<%
    sums = [(k, q, f"{k}_{q}") for k in range(R) for q in range(Q)]
    column = lambda q: gemv.module.column(q, "x_pitch", Q)
    # The first vectors, which such loads read; the others are read one by one.
    in_wide_loads = Q // vectors_per_load * vectors_per_load if vectors_per_load > 1 else 0
%>
static inline acc_t sum_rows(__global const ${elem.name}_t *a, long a_out, long a_sum, long row, long m,
    __global const ${elem.name}_t *x, long x_step,
        ${"long x_pitch, " if Q > 1 else ""}${"int vectors, " if Q > 2 else ""}long lane, long first,
        long last${', long start' if staggered else ''})
{
% for k in range(R):
    // A row beyond the last repeats that one; its sum is not stored.
    __global const ${elem.name}_t *a${k} = a + (row + ${k} < m ? row + ${k} : m - 1) * a_out;
% endfor
% for k, q, i in sums:
    ${T} s${i} = 0${f", t{i} = 0" if elem.complex else ""};
% endfor
% if staggered:
    long j;
    // Round 0: from start to last; round 1: from first to start.
    for (int round = 0; round < 2; ++round)
    for (j = (round ? first : start) + lane * ${V}; j + ${V} <= (round ? start : last); j += ${L * V}) {
% else:
    long j = first + lane * ${V};
    for (; j + ${V} <= last; j += ${L * V}) {
% endif
% for q in range(0, in_wide_loads, vectors_per_load):
        const ${vector(real, vectors_per_load * P)} near${q} = load${vectors_per_load}(x + j * x_step + ${q});
% for i in range(vectors_per_load):
<% reals = [gemv.module.lane(f"near{q}", i * P + p, vectors_per_load * P) for p in range(P)] %>\
        const ${T} x${q + i} = ${gemv.module.build(real, reals)};
% endfor
% endfor
% for q in range(in_wide_loads, Q):
% if x_vector:
        const ${T} x${q} = load${V}(x + j${column(q)});
% else:
        const ${T} x${q} = gather${V}(x + j * x_step${column(q)}, x_step);
% endif
% endfor
% if elem.complex:
% for q in range(Q):
        const ${T} xs${q} = ${gemv.module.swapped(f"x{q}", C)};
% endfor
% endif
% for k in range(R):
        const ${T} v${k} = load${V}(a${k} + j${"" if unit else " * a_sum"});
% endfor
% for k, q, i in sums:
${gemv.dot_step(elem, f"s{i}", f"t{i}", f"v{k}", f"x{q}", f"xs{q}")}\
% endfor
    }
% if V > 1:
    for (j = last - (last - first) % ${V} + lane; j < last; j += ${L}) {
% for q in range(Q):
        const ${vector(real, P)} x${q} = load_one(x + j * x_step${column(q)});
% endfor
% for k in range(R):
        const ${vector(real, P)} v${k} = load_one(a${k} + j);
% endfor
% for k, q, i in sums:
        ${gemv.module.head(f"s{i}", P)} += v${k} * x${q};
% if elem.complex:
        ${gemv.module.head(f"t{i}", P)} += v${k} * x${q}.yx;
% endif
% endfor
    }
% endif
    acc_t sums;
% for k, q, i in sums:
${gemv.signed(elem, real, C, conj, f"s{i}", f"t{i}")}\
    sums.re${i} = ${gemv.module.lane_sum(f"s{i}", C)};
% if elem.complex:
    sums.im${i} = ${gemv.module.lane_sum(f"t{i}", C)};
% endif
% endfor
    return sums;
}
</%def>

## Store `sums`, which this work-item holds, of the rows from `row` on.  from_col: "", or "col + " if the first of the
## vectors is number `col`; it begins the C expression of a vector's number for `finish`.
<%def name="put_rows(elem, real, R, Q, finish, from_col='')">
% for k in range(R):
% for q in range(Q):
<% sum = f"({real}2)(sums.re{k}_{q}, sums.im{k}_{q})" if elem.complex else f"sums.re{k}_{q}" %>\
        if (row + ${k} < m${gemv.module.exists(q, Q)})
            put(y + (row + ${k}) * y_step${gemv.module.column(q, "y_pitch", Q)}, ${sum}, alpha, beta,
                reads_y${put.at(finish, f"row + {k}", f"{from_col}{q}")});
% endfor
% endfor
</%def>
