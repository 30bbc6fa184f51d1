## The stores of the sums of an mma kernel that serves any C (see _mma_output).  The argument `store_kind` selects one:
##
##   0  rows      in 16 bytes, or pairs            2  columns   in pairs
##   1  lines     unaligned rows, by whole warps   3  elements  of any strides
<%namespace name="lines" file="/gemm/_mma_lines.cl.mako"/>
<%namespace name="output" file="/gemm/_mma_output.cl.mako"/>
<%! from itertools import product %>
<%def name="store(policy, problem, store_kinds, pair, wide, type)">
            if (store_kind == 0) {
${output.store(policy, pair, wide, type)}
            } else ${"if (store_kind == 1)" if "columns" in store_kinds else ""} {
${lines.store(policy, problem, type)}
            }
% if "columns" in store_kinds:
            else {
${columns(policy, type)}
            }
% endif
</%def>

## Store pairs of a column, or single elements of any strides.  x: the column of a pair of sums v, w, from `left` on.
<%def name="columns(policy, type)">
            const long top = first_row + rows_at + 2 * g, left = first_col + cols_at + 4 * q;
            const int columns = (int)min(n - left, ${policy.tile_n}l);
% for i in range(policy.blocks):
            {
                const int rows = (int)min(m - top - ${16 * i}, 2l);
                __global ${type} *line_at = c + (top + ${16 * i}) * c_row + left * c_col;
% for j, e in product(range(2 * policy.pairs), range(2)):
<% x = output.module.column(j, e) %>\
                if (rows > 0 && ${x} < columns) {
                    __global ${type} *const at = line_at + ${x} * c_col;
                    const real_t v = RESULT(d${i}_${j}_${e}, top + ${16 * i}, left + ${x});
                    const real_t w = RESULT(d${i}_${j}_${2 + e}, top + ${16 * i + 1}, left + ${x});
                    if (store_kind == 2) *(__global double2 *)at = (double2)(v, w);
                    else {
                        STORE(at, v);
                        if (rows > 1) STORE(at + c_row, w);
                    }
                }
% endfor
            }
% endfor
</%def>
