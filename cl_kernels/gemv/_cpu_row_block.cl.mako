## The outputs of a block of rows of cpu_rows, from the lane sums of its rows (_cpu_row_sums).
##
##   define(rows)                    fold_lanes_<rows>(lanes, sums)
##   compute(rows, tail_arguments)   compute and store the outputs.  tail_arguments: text, the arguments of lane_sums
##                                   for the columns after the last whole vector
##
## T, C, P, V, real, tail, side_by_side, split, finish: as in cpu_rows.  In scope, from there: i, the block's first row;
## first and last, the group's columns; lanes, sums; with split sums_at, the group's part of `partial`.
<%namespace name="outputs" file="/gemv/_cpu_outputs.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%def name="define(rows)">\
// sums[0 .. ${rows * P}) = the sums over lanes.
static inline void fold_lanes_${rows}(const ${T} *lanes, ${real} *sums)
{
% for i in range(rows * P):
    const ${T} v${i} = lanes[${i}];
% endfor
    ${outputs.transposed_sums(real, C, [f"v{i}" for i in range(rows * P)], "sums")}
}
</%def>

## Compute the sums of `rows` rows from row i on, and store them: in y, or with `split` in the group's part of
## `partial`.
<%def name="compute(rows, tail_arguments)">\
% if tail == "across":
        // Whether a vector may be loaded from the start of each of these rows, because the memory of A does not end
        // inside of it.
        const bool is_loadable = a_out >= n && (m - i - ${rows}) * a_out + n >= ${V};
% endif
% if rows == 1 or side_by_side:
        lane_sums_${rows}(a + i * a_out, a_out, a_sum, x, x_step, first, last, lanes${tail_arguments});
% else:
#pragma unroll 1
        for (int k = 0; k < ${rows}; ++k)
            lane_sums_1(a + (i + k) * a_out, a_out, a_sum, x, x_step, first, last, lanes + k * ${P}${tail_arguments});
% endif
        fold_lanes_${rows}(lanes, sums);
% if split:
        for (int k = 0; k < ${rows * P}; ++k) sums_at[i * ${P} + k] = sums[k];
% else:
        store_all(y + i * y_step, y_step, sums, ${rows}, alpha, beta, reads_y${put.at(finish, "i", 0)});
% endif
</%def>
