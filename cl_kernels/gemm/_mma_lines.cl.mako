## The stores of the sums of an mma kernel to unaligned rows of C: a warp's squares are copied through local memory, one
## after the other, so that each half of the warp stores 16 adjacent elements of a row.  _mma_output says which sums a
## lane has.
##
## policy, problem: as in mma.  type: the C type of an element of C.  In scope: first_row, first_col, of the tile;
## rows_at, cols_at, of the warp in the tile; warp, lane, g, q; m, n; C's pointer and strides.
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>

## Local memory: a square of 16 x 16 for each warp, by rows with a pitch of 18 doubles, so that lanes access different
## banks.
<%def name="scratch(policy)">
    __local double scratch[${policy.group_size // 32 * 16 * 18}] __attribute__((aligned(16)));
</%def>

<%def name="store(policy, problem, type)">
            __local double *square = scratch + warp * ${16 * 18};
% for i in range(policy.blocks):
            {
                const long top = first_row + rows_at + ${16 * i};
                const int rows = (int)min(m - top, 16l);
% for j in range(0, 2 * policy.pairs, 2):
                if (first_col + cols_at + ${8 * j} < n) {
% for h in range(2):
                    {
                        // The lane's four adjacent elements of a row.
                        __local double2 *four = (__local double2 *)(square + (2 * g + ${h}) * 18 + 4 * q);
                        four[0] = (double2)(d${i}_${j}_${2 * h}, d${i}_${j + 1}_${2 * h});
                        four[1] = (double2)(d${i}_${j}_${2 * h + 1}, d${i}_${j + 1}_${2 * h + 1});
                    }
% endfor
                    WARP_BARRIER();
                    const long col = first_col + cols_at + ${8 * j} + lane % 16;
                    __global ${type} *line = c + (top + lane / 16) * c_row + col;
#pragma unroll 4
                    for (int row = lane / 16; row < rows; row += 2, line += 2 * c_row)
                        if (col < n${triangle.only(problem, 'top + row', 'col')})
                            STORE(line, RESULT(square[18 * row + lane % 16], top + row, col));
                    WARP_BARRIER();
                }
% endfor
            }
% endfor
</%def>
