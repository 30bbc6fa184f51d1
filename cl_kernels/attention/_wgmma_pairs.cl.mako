## A part of wgmma_backward: all products of a tile: scores s and gradients dp of probabilities; in their place
## probabilities p and gradients ds of scores (formulas: see mma_backward); then ds and p times the other side's rows,
## which are added to the sums of the results: dx (dq or dk) and dv.  In scope there:
##
##   row_arrays, tile_arrays   (name, padded extent D, extent) of each own array, and of the other side's; first of s
##   at_NAME                   descriptors of the own arrays; DESCRIPTOR's constants: see _warpgroup
##   NAME_base, stage, ahead   the address of a tile array in local memory, and the offsets of this tile and of the next
##                             one in it, in bytes
##   of_queries, queries_at    for side k: m and delta of queries in local memory, those of this tile from queries_at on
##
## The copies of the next tile start between the products, in a branch: without it ptxas would move a later wait before
## the exponentials.  WAIT_x(n) waits for the products x; at most n groups of products that were started later may be
## unfinished.  With three stages the sums of the turn before are awaited here, with two those of this turn.
<%namespace name="lines" file="/attention/_lines.cl.mako"/>
<%namespace name="units" file="/attention/_warpgroup.cl.mako"/>
<%namespace name="pairs" file="/attention/_gradient_pairs.cl.mako"/>
<%namespace name="of_query" file="/attention/_gradient_queries.cl.mako"/>
<%def name="multiply()"><% TK, sums = policy.others, ("dx",) if side == "q" else ("dx", "dv") %>\
% for pair_sum, (row, D, _), (tile, _, _) in zip(("s", "dp"), row_arrays, tile_arrays):
${units.multiply_rows(pair_sum, f"at_{row}", f"DESCRIPTOR({tile}_base + stage, 512)", D, policy.rows, TK)}\
% endfor
        WAIT_s(1);
% if policy.stages == 3:
% for x in sums:
        WAIT_${x}(1);
% endfor
% endif
${pairs.exponentials("queries_at")}\
${of_query.copy(lines.copy, f"t0 + {TK}u", " + ahead")}\
% if side == "k":
${pairs.operands("p", "s", "")}\
${units.add_rows("dv", "p", f"DESCRIPTOR({tile_arrays[1][0]}_base + stage, {8 * TK})", TK)}\
% endif
        WAIT_dp(${int(side == "k")});
${pairs.score_gradients()}\
${pairs.operands("ds", "dp", "")}\
${units.add_rows("dx", "ds", f"DESCRIPTOR({tile_arrays[0][0]}_base + stage, {8 * TK})", TK)}\
% if policy.stages == 2:
% for x in sums:
        WAIT_${x}(0);
% endfor
% endif
</%def>
