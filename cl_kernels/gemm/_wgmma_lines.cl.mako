## Stores of the sums of a warpgroup of wgmma row by row, by 32 adjacent lanes, through local memory.  _wgmma_output has
## the sums of each lane.  A warp stores blocks of 16 rows and 32 columns, one after the other.
##
##   scratch | block of warp 0: 16 rows of 40 floats, of which 32 are used | block of warp 1 | ...
##
## With a pitch of 40 floats, lanes access different banks.
<%def name="scratch(policy)">
    __local float scratch[${4 * policy.consumers * 16 * 40}] __attribute__((aligned(16)));
</%def>

<%def name="store(policy, sums, type)">
            __local float *block = scratch + t / 32 * ${16 * 40};
% for r in range(policy.blocks):
            {
                const long top = first_row + above * 64 + ${64 * r} + t / 32 % 4 * 16;
                const int rows = (int)min(m - top, 16l);
% for left in range(0, policy.tile_n, 32):
                if (first_col + ${left} < n) {
                    // Lane 4 g + q has columns 2q and 2q + 1 of each 8, of the rows g and g + 8.
                    __local float2 *pairs = (__local float2 *)(block + lane / 4 * 40 + lane % 4 * 2);
% for j in range(left // 8, left // 8 + 4):
% for h in range(2):
                    pairs[${8 * 40 // 2 * h + 4 * (j - left // 8)}] = (float2)(${sums}${r}_${4 * j + 2 * h},
                        ${sums}${r}_${4 * j + 2 * h + 1});
% endfor
% endfor
                    WARP_BARRIER();
                    const long col = first_col + ${left} + lane;
                    __global ${type} *line = c + top * c_row + col;
#pragma unroll 4
                    for (int i = 0; i < rows; ++i, line += c_row)
                        if (col < n) STORE(line, RESULT(block[40 * i + lane], top + i, col));
                    WARP_BARRIER();
                }
% endfor
            }
% endfor
</%def>
