## A pair of tiles of a Cholesky factor that one group of tiles computes: W on the diagonal, and V at its left.  _tile
## has the variables in scope.
##
##           s     f
##        +-----+             W = C - sum over k of L(f, k) L(f, k)^H.  The terms k < s are subtracted with those
##     s  |  D  |             of V, and the term k = s while V is solved, in steps of 16 rows of V.  So the chain
##        +-----+-----+       of dependences along the diagonal passes global memory only once for each tile.
##     f  |  V  |  W  |
##        +-----+-----+
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="panel" file="/factor/_panels.cl.mako"/>
<%namespace name="sums" file="/factor/_sums.cl.mako"/>
<%namespace name="solve" file="/factor/_tile_solve.cl.mako"/>
<%namespace name="factor" file="/factor/_tile_factor.cl.mako"/>

## Subtract the products of V's remaining rows, from first_remaining on, from W, in steps of 16 rows.  For each step,
## the work-items that hold these rows store them in local memory.
<%def name="subtract_remaining_rows()">\
for (int from = first_remaining; from < 64; from += 16) {
            __local value_t *shared_rows = solved + y * ${item_rows} % 16 * 68;
            if (y * ${item_rows} / 16 == from / 16) {
                ${solve.share_rows()}
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            ${subtract_rows()}
            barrier(CLK_LOCAL_MEM_FENCE);
        }
</%def>

## Subtract the products of the 16 rows of V in local memory from W.
<%def name="subtract_rows()">\
% if not problem.elem.complex:
${sums.multiply("sum_w", "solved", "solved")}
% else:
${panel.subtract("w", "solved", "solved", 16, "CONJ", 4)}
% endif
</%def>

## After the products: solve V, which is L's tile (f, s), and factorise W, which is L's tile (f, f).  Without
## a V, s is -1.
<%def name="solve_and_factorise()">\
if (s >= 0) {
        ${solve.solve_tile()}
    }
    if (has_diagonal) {
        ${waiting.release()}\
        if (t == 255 && s >= 0) {
            ${waiting.set("done + f * (f + 1) / 2 + s")}\
        }
% if not mma:
        ${subtract_remaining_rows()}
% endif
% if not problem.elem.complex:
        ${sums.subtract_sums("w", "sum_w")}
% endif
        s = f;
        s0 = f0;
        left_s = left_f;
% for i in range(item_rows):
% for j in range(16 // item_rows):
        v${i}_${j} = w${i}_${j};
% endfor
% endfor
        ${factor.factorise_tile()}
    }
</%def>
