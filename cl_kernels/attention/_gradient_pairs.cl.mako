## Parts of mma_backward and wgmma_backward, for the pairs of a query i and a key n of a tile: probabilities
## p = exp(scale s + mask - sums), gradients of scores ds = p (dp - delta), where s = q k' are scores and dp = grad v'
## gradients of probabilities, and operands of products with p and ds.
##
## A lane has B * TK / 8 * 4 scores in registers (B = policy.blocks, TK = policy.others), and as many dp.  The score
## s{block}_{j}_{2 half + e} and the dp with the same indices are those of the pair of
##   own row         first_own + 16 block + 8 half + g       g = lane / 4
##   the other's row t0 + 8 j + 2 c + e                       c = lane % 4
## In scope at the caller: first_own, the warp's first own row; t0, the tile's first row; b, batch; h, head of the
## queries; side, "q" if own rows are queries, else "k"; m{block}_{half}, delta{block}_{half} of own queries, or
## of_queries, in local memory, m and delta of the other side's (_gradient_queries); factor: scale * log2(e), or scale
## with an additive mask; shift: as an operand p is 2^shift times as large.
<%!
# The indices of a lane's scores.
scores_of = lambda B, TK: [
    (block, j, half, e) for block in range(B) for j in range(TK // 8) for half in range(2) for e in range(2)]
%>
## Set the scores of pairs that are not seen to minus infinity.  With a mask, multiply the scores by `factor` and add
## it.  unseen: C text, whether a tile may have such pairs; seen: C conditions of one pair.
<%def name="hide()"><%
B, TK, by_query = policy.blocks, policy.others, side == "q"
if by_query:
    unseen = f"t0 + {TK}u > " + ("min(keys, first_own + 1u)" if causal else "keys")
else:
    unseen = f"t0 < first_own + {16 * B}u" if causal else ""
seen = ["n < keys"] * by_query + ["n <= i"] * causal
%>\
% if mask or unseen:
            ${f"if ({unseen}) " if not mask else ""}{
% if mask:
                HIDE_VALUE("+l", mask_row);
                HIDE_VALUE("+l", mask_step);
% endif
% for block, j, half, e in scores_of(B, TK):
<%
score = f"s{block}_{j}_{2 * half + e}"
own_row, other_row = f"first_own + {16 * block + 8 * half}u + g", f"t0 + {8 * j + e}u + 2u * c"
boolean = mask and mask.boolean
shown = "is_seen && of_mask" if boolean else "is_seen"
scaled = f"factor * {score}" if boolean else f"fma({score}, factor, of_mask)"
%>\
                {
                    const uint i = ${own_row if by_query else other_row}, n = ${other_row if by_query else own_row};
                    (void)i;
% if mask:
                    const bool is_seen = i < queries && n < keys;
                    const ${mask.value} of_mask = is_seen ? ${mask.name}_load(mask_data
                        + (mask_offset + b * mask_batch + h * mask_head + i * mask_row + n * mask_step)) : 0;
                    ${score} = ${shown} ? ${scaled} : -INFINITY;
% else:
                    ${score} = ${" && ".join(seen)} ? ${score} : -INFINITY;
% endif
                }
% endfor
            }
% endif
</%def>

## Replace scores s by probabilities p, times 2^shift.  For side k, the pairs (m, delta) of the tile's queries are in
## of_queries from `tile_start` (C text) on.
<%def name="exponentials(tile_start)">\
${hide()}\
% if side == "k":
            const __local float2 *query = of_queries + ${tile_start} + 2u * c;
% endif
% for block, j, half, e in scores_of(policy.blocks, policy.others):
<%
score = f"s{block}_{j}_{2 * half + e}"
multiplier = "1.0f" if mask else "factor"
m = f"query[{8 * j + e}].x" if side == "k" else f"m{block}_{half}"
added = mask and not mask.boolean
exponent = f"fma({score} - {m}, M_LOG2E_F, {shift})" if added else f"fma({score}, {multiplier}, -{m})"
%>\
            ${score} = power_of_two(${exponent});
% endfor
</%def>

## Replace dp by the gradient of the score, ds = p (dp - delta).
<%def name="score_gradients()">\
% for block, j, half, e in scores_of(policy.blocks, policy.others):
<%
indices = f"{block}_{j}_{2 * half + e}"
delta = f"query[{8 * j + e}].y" if side == "k" else f"delta{block}_{half}"
difference = f"(dp{indices} - {delta})"
%>\
            dp${indices} = s${indices} * ${f"({2.0 ** -shift!r}f * {difference})" if shift else difference};
% endfor
</%def>

## Declare (or with type "" assign) the numbers named source (s or dp), rounded to 16 bits, in pairs as operand A of a
## product: two adjacent blocks of 8 columns, j and j + 1, are one operand of four registers r (see _products).
<%def name="operands(operand, source, type='const uint ')"><% B, TK = policy.blocks, policy.others %>\
% for block, j, r in ((block, j, r) for block in range(B) for j in range(0, TK // 8, 2) for r in range(4)):
<% four, low = f"{source}{block}_{j + r // 2}", r % 2 * 2 %>\
                ${type}${operand}${block}_${j}_${r} = rounded_pair(${four}_${low}, ${four}_${low + 1});
% endfor
</%def>
