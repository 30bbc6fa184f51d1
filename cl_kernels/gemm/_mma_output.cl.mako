## The stores of the sums of an mma kernel.  In the squares of 16 x 16 of its warp, lane 4 g + q holds rows 2g and
## 2g + 1, columns 4q to 4q + 3 (see mma).  Sum d<i>_<j>_<2 h + e> is that of row 16 i + 2g + h and column
## 4q + column(j, e), which is 4q + 16 (j / 2) + j % 2 + 2 e, for h, e = 0, 1.
##
## pair  see _units
## wide  two lanes exchange sums, so that they store 32 adjacent bytes together, by each of two accesses
## type  the C type of an element of C
## In scope: first_row, first_col, of the tile; rows_at, cols_at, of the warp in the tile; warp, lane, g, q; m, n; C's
## pointer and strides.
##
## store: along the rows of C, by 16 bytes (wide) or by pairs, or with pair == "columns" by pairs along its columns.
## top, left: the lane's first row and column.
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%!
from itertools import product

def column(j, e):
    """The column of sum d<i>_<j>_<2 h + e>, from the lane's first column on."""
    return 8 * (j - j % 2) + j % 2 + 2 * e
%>
<%def name="store(policy, pair, wide, type)">
            const long top = first_row + rows_at + 2 * g, left = first_col + cols_at + 4 * q;
% if not wide:
            const int columns = (int)min(n - left, ${policy.tile_n}l);
% endif
% for i in range(policy.blocks):
% if wide:
% for h in range(2):
            {
                const long row = top + ${16 * i + h};
                __global ${type} *line_at = c + row * c_row;
% for j in range(0, 2 * policy.pairs, 2):
                {
                    // The first lane stores the x of both lanes, at col and col + 4, the second lane the y of both.
                    const long col = left + ${8 * j} - lane % 2 * 2;
% for e, piece in enumerate("xy"):
                    uint4 ${piece} = as_uint4((double2)(
                        ${", ".join(f"RESULT(d{i}_{j + o}_{2 * h + e}, row, left + {8 * j + 2 * e + o})"
                        for o in range(2))}));
% endfor
                    exchange_chunks(&x, &y, lane % 2, 1);
                    if (row < m && col < n) *(__global uint4 *)(line_at + col) = x;
                    if (row < m && col + 4 < n) *(__global uint4 *)(line_at + col + 4) = y;
                }
% endfor
            }
% endfor
% elif pair == "columns":
            if (top + ${16 * i} < m) {
                const long row = top + ${16 * i};
                __global ${type} *line_at = c + row + left * c_col;
% for j in range(2 * policy.pairs):
                STORE_PAIR(line_at, ${column(j, 0)}, row, left, d${i}_${j}_0, d${i}_${j}_2);
                STORE_PAIR(line_at, ${column(j, 1)}, row, left, d${i}_${j}_1, d${i}_${j}_3);
% endfor
            }
% else:
% for h in range(2):
            if (top + ${16 * i + h} < m) {
                const long row = top + ${16 * i + h};
                __global ${type} *line_at = c + row * c_row + left * c_col;
% for j in range(0, 2 * policy.pairs, 2):
                STORE_PAIR(line_at, ${column(j, 0)}, row, left, d${i}_${j}_${2 * h}, d${i}_${j + 1}_${2 * h});
                STORE_PAIR(line_at, ${column(j, 1)}, row, left, d${i}_${j}_${2 * h + 1}, d${i}_${j + 1}_${2 * h + 1});
% endfor
            }
% endfor
% endif
% endfor
</%def>

## Store the elements of a tile across the diagonal one by one (see _triangle).  x: the column of a sum, from `left` on.
<%def name="each(policy, problem, type)">
            const long left = first_col + cols_at + 4 * q;
% for i in range(policy.blocks):
% for h in range(2):
            {
                const long row = first_row + rows_at + 2 * g + ${16 * i + h};
${triangle.line(problem, type)}\
% for j, e in product(range(2 * policy.pairs), range(2)):
<% x = column(j, e) %>\
                if (begin <= ${x} && ${x} < end)
                    STORE(line + ${x} * c_col, RESULT(d${i}_${j}_${2 * h + e}, row, left + ${x}));
% endfor
            }
% endfor
% endfor
</%def>
