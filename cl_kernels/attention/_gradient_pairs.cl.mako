## Pairs of a query and a key in mma_backward and wgmma_backward: probabilities p = exp(scale s + mask - sums),
## gradients of scores e = p (z - delta), and the products of both with rows.  Names are those of mma_backward.
##
## A lane has of the scores s{i}_{j}_{2h + e} (and z) the pair of own row mine + 16 i + 8 h + g and of the other side's
## row t0 + 8 j + 2 c + e, with g = lane / 4 and c = lane % 4.  In the text i is a query and n a key.
<%!
# The indices of a lane's scores.
scores_of = lambda B, TK: [(i, j, h, e) for i in range(B) for j in range(TK // 8) for h in range(2) for e in range(2)]
%>
## Set the scores of pairs that are not seen to minus infinity.  With a mask, multiply the scores by the factor.
<%def name="hide()"><%
B, TK, by_query = policy.blocks, policy.others, side == "q"
if by_query:
    unseen = f"t0 + {TK}u > " + ("min(keys, mine + 1u)" if causal else "keys")
else:
    unseen = f"t0 < mine + {16 * B}u" if causal else ""
seen = ["n < keys"] * by_query + ["n <= i"] * causal
%>\
% if mask or unseen:
            ${f"if ({unseen}) " if not mask else ""}{
% if mask:
                COMPUTE_AGAIN("+l", mask_row);
                COMPUTE_AGAIN("+l", mask_step);
% endif
% for i, j, h, e in scores_of(B, TK):
<%
x, mine, other = f"s{i}_{j}_{2 * h + e}", f"mine + {16 * i + 8 * h}u + g", f"t0 + {8 * j + e}u + 2u * c"
boolean = mask and mask.boolean
shown, score = ("is_seen && x", f"factor * {x}") if boolean else ("is_seen", f"fma({x}, factor, x)")
%>\
                {
                    const uint i = ${mine if by_query else other}, n = ${other if by_query else mine};
                    (void)i;
% if mask:
                    const bool is_seen = i < queries && n < keys;
                    const ${mask.value} x = is_seen ? ${mask.name}_load(mask_in
                        + (mask_offset + b * mask_batch + h * mask_head + i * mask_row + n * mask_step)) : 0;
                    ${x} = ${shown} ? ${score} : -INFINITY;
% else:
                    ${x} = ${" && ".join(seen)} ? ${x} : -INFINITY;
% endif
                }
% endfor
            }
% endif
</%def>

## Replace scores s by probabilities p, times 2^shift.  For side k, m and delta of the queries are in one half of
## of_queries, which begins at `half`.
<%def name="powers(half)">\
${hide()}\
% if side == "k":
            const __local float2 *query = of_queries + ${half} + 2u * c;
% endif
% for i, j, h, e in scores_of(policy.blocks, policy.others):
<%
x, r, m = f"s{i}_{j}_{2 * h + e}", "1.0f" if mask else "factor", f"query[{8 * j + e}].x" if side == "k" else f"m{i}_{h}"
exponent = f"fma({x} - {m}, M_LOG2E_F, {shift})" if mask and not mask.boolean else f"fma({x}, {r}, -{m})"
%>\
            ${x} = power_of_two(${exponent});
% endfor
</%def>

## Replace z by the gradient of the score, e = p (z - delta).
<%def name="score_gradients()">\
% for i, j, h, e in scores_of(policy.blocks, policy.others):
<%
x, delta = f"{i}_{j}_{2 * h + e}", f"query[{8 * j + e}].y" if side == "k" else f"delta{i}_{h}"
difference = f"(z{x} - {delta})"
%>\
            z${x} = s${x} * ${f"({2.0 ** -shift!r}f * {difference})" if shift else difference};
% endfor
</%def>

## Declare the numbers of x (s or z), rounded to 16 bits, in pairs as operand A of a product.
<%def name="operands(operand, x, type='const uint ')">\
% for i, j, r in ((i, j, r) for i in range(policy.blocks) for j in range(0, policy.others // 8, 2) for r in range(4)):
<% pair = f"{x}{i}_{j + r // 2}_{r % 2 * 2}" %>\
                ${type}${operand}${i}_${j}_${r} = rounded_pair(${pair}, ${pair[:-1]}${r % 2 * 2 + 1});
% endfor
</%def>
