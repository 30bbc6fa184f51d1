## A tile W of the diagonal and the tile V before it in its rows, which one group has: see tiles and _tile.
##
##           s     f
##        +-----+             W = C - sum over k of L(f, k) L(f, k)^H: of k < s with the products of V, of
##     s  |  D  |             k = s while V is solved, sixteen rows of V at a time.  So the chain along the
##        +-----+-----+       diagonal goes through memory once a tile.
##     f  |  V  |  W  |
##        +-----+-----+
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="panel" file="/factor/_panels.cl.mako"/>
<%namespace name="sums" file="/factor/_sums.cl.mako"/>
<%namespace name="solve" file="/factor/_tile_solve.cl.mako"/>
<%namespace name="factor" file="/factor/_tile_factor.cl.mako"/>

## W takes the rows that it has not had: those of V are shown again.
<%def name="late()">\
for (int from = late_from; from < 64; from += 16) {
            __local value_t *shown = solved + y * ${depth} % 16 * 68;
            if (y * ${depth} / 16 == from / 16) {
                ${solve.show()}
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            ${more()}
            barrier(CLK_LOCAL_MEM_FENCE);
        }
</%def>

## W, less the products of the 16 rows of V that are shown.
<%def name="more()">\
% if not problem.elem.complex:
${sums.multiply("e", "solved", "solved")}
% else:
${panel.subtract("w", "solved", "solved", 16, "CONJ", 4)}
% endif
</%def>

## After the products: V, which is L's tile (f, s), and W, which is L's tile (f, f).
<%def name="solved_and_factorised()">\
if (s >= 0) {
        ${solve.solved()}
    }
    if (leads) {
        ${waiting.release()}\
        if (t == 255 && s >= 0) {
            ${waiting.set("done + f * (f + 1) / 2 + s")}\
        }
% if not mma:
        ${late()}
% endif
% if not problem.elem.complex:
        ${sums.subtract_sums("w", "e")}
% endif
        s = f;
        s0 = f0;
        left_s = left_f;
% for i in range(depth):
% for j in range(16 // depth):
        v${i}_${j} = w${i}_${j};
% endfor
% endfor
        ${factor.factorised()}
    }
</%def>
