## For update: the end of the products of a tile in float64 by matrix instructions: C -= the sums of
## factor/_mma_products, in place, without local memory.  C is contiguous along s (v_row is 1), or along f; only
## elements on or below the front's diagonal are stored.  In scope: mma_row, mma_col, quad and the sums sum_v<i>_<j>_<2
## r + h> of row 16 i + r and column 8 j + h (factor/_mma_products); s0, f0, left_s, left_f, v, v_row and v_col
## (_blocks).
<%def name="subtract_in_place()">\
// How many columns and rows exist from the lane's first sum on, and the number of rows from it to the diagonal.
    const int columns_left = left_f - mma_col - 2 * quad, rows_left = left_s - mma_row;
    const int rows_to_diagonal = f0 + mma_col + 2 * quad - s0 - mma_row;
    if (v_row == 1) {
% for j in range(2):
% for h in range(2):
        if (${8 * j + h} < columns_left) {
            __global double *to = v + s0 + mma_row + (f0 + mma_col + 2 * quad + ${8 * j + h}) * v_col;
% for i in range(2):
% for r in range(2):
            if (${16 * i + r} < rows_left && ${16 * i + r} <= rows_to_diagonal + ${8 * j + h})
                to[${16 * i + r}] -= sum_v${i}_${j}_${2 * r + h};
% endfor
% endfor
        }
% endfor
% endfor
    } else {
% for i in range(2):
% for r in range(2):
        if (${16 * i + r} < rows_left) {
            __global double *to = v + (s0 + mma_row + ${16 * i + r}) * v_row + f0 + mma_col + 2 * quad;
% for j in range(2):
% for h in range(2):
            if (${8 * j + h} < columns_left && ${16 * i + r} <= rows_to_diagonal + ${8 * j + h})
                to[${8 * j + h}] -= sum_v${i}_${j}_${2 * r + h};
% endfor
% endfor
        }
% endfor
% endfor
    }
</%def>
