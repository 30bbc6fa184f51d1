## The products of a tile V (64 x 64, see _tile) of float64 by the matrix instruction of NVIDIA's warps (gemm/_mma).
## Warp w sums 32 rows from 32 (w % 2) on and 16 columns from 16 (w / 2) on, in squares of 16 x 8.  Of the square (i,
## j), lane 4 g + quad has the sums NAME<i>_<j>_<2 h + e>, of row 2g + h and column 2 quad + e, for h, e = 0, 1.
## The defs are described in _sums; _tile has the variables in scope.  Panels in local memory have a pitch of 68
## (_panels).
<%namespace name="mma" file="/gemm/_mma.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>

## wide: whether the instruction for 16 steps of k is used, on targets that have it.
<%def name="define(wide=True)">${mma.instructions(wide and target.matrix_units == 'wgmma')}</%def>

## Declare the lane's first row and the warp's first column in V.
<%def name="declare()">\
const int warp = t / 32, g = t % 32 / 4, quad = t % 4;
    const int mma_row = 32 * (warp % 2) + 2 * g, mma_col = 16 * (warp / 2);
</%def>
<%def name="sums(name)">\
% for i in range(2):
    double ${", ".join(f"{name}{i}_{j}_{r} = 0" for j in range(2) for r in range(4))};
% endfor
</%def>

## Start the sums with -C, so that V is their negative at the end (values beyond the matrix: see _tile's input).  The
## tile has the columns from f0 on, and the rows from s0 on, or from f0 on if the argument s is "f" (a tile of the
## diagonal).
<%def name="input(source, name, s)">\
% for i in range(2):
% for j in range(2):
% for r in range(4):
    {
        const int row = mma_row + ${16 * i + r // 2}, col = mma_col + ${8 * j + r % 2} + 2 * quad;
        ${name}${i}_${j}_${r} = ${f"{tile.module.on_diagonal(s)} ? -1. : 0." if factorise else "0"};
        if (row < left_${s} && col < left_f${f" && {tile.module.in_triangle(s)}" if factorise else ""})
            ${name}${i}_${j}_${r} = -${source}[(${s}0 + row) * ${source}_row + (f0 + col) * ${source}_col];
    }
% endfor
% endfor
% endfor
</%def>

## Add the products of 16 steps of k, whose panels p and q are in local memory.
<%def name="multiply(name, p, q)">\
{
% for j in range(2):
% for r in range(4):
                    const double b${j}_${r} = ${q}[(quad + ${4 * r}) * 68 + mma_col + ${8 * j} + g];
% endfor
% endfor
% for i in range(2):
% for r in range(4):
                    const double2 a${i}_${r} = *(__local const double2 *)(${p} + (quad + ${4 * r}) * 68 + mma_row
                        + ${16 * i});
                    const double a${i}_0_${r} = a${i}_${r}.x, a${i}_1_${r} = a${i}_${r}.y;
% endfor
% for j in range(2):
                    MMA(${name}${i}_${j}_0, ${name}${i}_${j}_1, ${name}${i}_${j}_2, ${name}${i}_${j}_3, a${i}, b${j});
% endfor
% endfor
                }
</%def>

## Subtract the sums from v, whose elements other work-items hold: the sums pass through the local memory of the panels,
## 32 rows at a time, or 64 if there are two panels of each operand.  The first half of these rows, `lines` of them, is
## in p_part, the second in q_part, with a pitch of 68.  has_input: whether v has been set to C; otherwise it is 0.
<%def name="subtract_sums(v, name, has_input)">\
<% lines = 16 * panels %>\
for (int from = 0; from < 64; from += ${2 * lines}) {
% for i in range(2):
        {
            const int row = mma_row + ${16 * i} - from;
            if (row >= 0 && row < ${2 * lines}) {
                __local double *to = (row < ${lines} ? p_part + row * 68 : q_part + (row - ${lines}) * 68) + mma_col
                    + 2 * quad;
% for j in range(2):
% for h in range(2):
                to[${68 * h + 8 * j}] = ${name}${i}_${j}_${2 * h};
                to[${68 * h + 8 * j + 1}] = ${name}${i}_${j}_${2 * h + 1};
% endfor
% endfor
            }
        }
% endfor
        ${subtract_local_sums(v, has_input)}
    }
</%def>

## Subtract the sums that are in local memory, of the rows from `from` on, from v.
<%def name="subtract_local_sums(v, has_input)">\
<% lines = 16 * panels %>\
barrier(CLK_LOCAL_MEM_FENCE);
        {
            const int row = ${item_rows} * y - from;
            if (row >= 0 && row < ${2 * lines}) {
                __local const value_t *sum = (row < ${lines} ? p_part + row * 68 : q_part + (row - ${lines}) * 68) + x;
% for i in range(item_rows):
% for j in range(16 // item_rows):
                ${v}${i}_${j} ${'-= ' if has_input else '= -'}sum[${i * 68 + 4 * item_rows * j}];
% endfor
% endfor
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
</%def>
