## The products of a tile in double precision by the matrix instruction of warps: see _tile and
## gemm/_mma.  Warp w sums rows 32 (w % 2) ... and columns 16 (w / 2) ... of V, in squares of 16 x 8:
## lane 4 g + q has rows 2g and 2g + 1, columns 2q and 2q + 1.
<%namespace name="mma" file="/gemm/_mma.cl.mako"/>

## wide: by the instruction for 16 steps of k at a time, where there is one.
<%def name="define(wide=True)">${mma.instructions(wide and target.matrix_units == 'wgmma')}</%def>

<%def name="declare()">\
const int warp = t / 32, g = t % 32 / 4, quad = t % 4;
    const int mma_row = 32 * (warp % 2) + 2 * g, mma_col = 16 * (warp / 2);
% for i in range(2):
    double ${", ".join(f"d{i}_{j}_{r} = 0" for j in range(2) for r in range(4))};
% endfor
</%def>

## Add the products of 16 steps of k, whose panels are in local memory.
<%def name="multiply()">\
{
% for j in range(2):
% for r in range(4):
                    const double b${j}_${r} = q_part[(quad + ${4 * r}) * 68 + mma_col + ${8 * j} + g];
% endfor
% endfor
% for i in range(2):
% for r in range(4):
                    const double2 a${i}_${r} = *(__local const double2 *)(p_part + (quad + ${4 * r}) * 68 + mma_row + ${16 * i});
                    const double a${i}_0_${r} = a${i}_${r}.x, a${i}_1_${r} = a${i}_${r}.y;
% endfor
% for j in range(2):
                    MMA(d${i}_${j}_0, d${i}_${j}_1, d${i}_${j}_2, d${i}_${j}_3, a${i}, b${j});
% endfor
% endfor
                }
</%def>

## C less the sums, where they are; C has neighbours along s, or along f, next to each other.
<%def name="subtract_in_place()">\
const int right = left_f - mma_col - 2 * quad, down = left_s - mma_row;
    const int below = f0 + mma_col + 2 * quad - s0 - mma_row;  // how far below the diagonal
    if (v_row == 1) {
% for j in range(2):
% for h in range(2):
        if (${8 * j + h} < right) {
            __global double *to = v + s0 + mma_row + (f0 + mma_col + 2 * quad + ${8 * j + h}) * v_col;
% for i in range(2):
% for r in range(2):
            if (${16 * i + r} < down && ${16 * i + r} <= below + ${8 * j + h}) to[${16 * i + r}] -= d${i}_${j}_${2 * r + h};
% endfor
% endfor
        }
% endfor
% endfor
    } else {
% for i in range(2):
% for r in range(2):
        if (${16 * i + r} < down) {
            __global double *to = v + (s0 + mma_row + ${16 * i + r}) * v_row + f0 + mma_col + 2 * quad;
% for j in range(2):
% for h in range(2):
            if (${8 * j + h} < right && ${16 * i + r} <= below + ${8 * j + h}) to[${8 * j + h}] -= d${i}_${j}_${2 * r + h};
% endfor
% endfor
        }
% endfor
% endfor
    }
</%def>

## v -= the sums, sixteen rows of V at a time by way of local memory.
<%def name="subtract_sums()">\
for (int from = 0; from < 64; from += 16) {
        __local double *stage = from & 16 ? q_part : p_part;
% for i in range(2):
        if (32 * (warp % 2) + ${16 * i} == from) {
% for j in range(2):
% for h in range(2):
            stage[(2 * g + ${h}) * 68 + mma_col + ${8 * j} + 2 * quad] = d${i}_${j}_${2 * h};
            stage[(2 * g + ${h}) * 68 + mma_col + ${8 * j} + 2 * quad + 1] = d${i}_${j}_${2 * h + 1};
% endfor
% endfor
        }
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        if (y / ${16 // depth} == from / 16) {
% for i in range(depth):
% for j in range(16 // depth):
            v${i}_${j} -= stage[(${depth} * y % 16 + ${i}) * 68 + x + ${4 * depth * j}];
% endfor
% endfor
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
