## Pairs of a query and a key in mma_backward: probabilities p, e = p (z - delta), and their products.  Names are those
## of mma_backward.
<%namespace name="products" file="/attention/_products.cl.mako"/>
<%!
quarters = lambda B, TK: [(i, j, h, e) for i in range(B) for j in range(TK // 8) for h in range(2) for e in range(2)]
%>
## Declare the addresses from which a lane loads matrices.
<%def name="places()"><% module = products.module %>\
    const uint row = lane % 16u, key = lane / 16u * 8u + lane % 8u;
% for name, D, _ in row_arrays:
    const uint ${name}_at = ${module.rows(name, D, policy.blocks)};
    uint ${name}_turn = ${products.turn_of_rows(D)};
% endfor
% for name, D, _ in tile_arrays:
    const uint ${name}_at = ${module.keys(name, D)};
    uint ${name}_turn = ${products.turn_of_keys(D)};
% endfor
% for name, D, _ in tile_arrays[:1 if side == "q" else 2]:
    const uint ${name}t_at = ${module.values(name, D)};
    uint ${name}t_turn = ${products.turn_of_rows(D)};
% endfor
</%def>

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
% for i, j, h, e in quarters(B, TK):
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

## An expression: whether the tile has pairs of a warp's rows that are seen.
<%def name="needed()">\
${"true" if not causal else f"t0 < mine + {16 * policy.blocks}u" if side == "q" else f"t0 + {policy.others}u > mine"}\
</%def>

## Replace scores by probabilities.  For side k, m and delta of the queries are in one half of of_queries.
<%def name="powers(half)">\
${hide()}\
% if side == "k":
            const __local float2 *query = of_queries + ${half} + 2u * c;
% endif
% for i, j, h, e in quarters(policy.blocks, policy.others):
<%
x, r, m = f"s{i}_{j}_{2 * h + e}", "1.0f" if mask else "factor", f"query[{8 * j + e}].x" if side == "k" else f"m{i}_{h}"
exponent = f"fma({x} - {m}, M_LOG2E_F, {shift})" if mask and not mask.boolean else f"fma({x}, {r}, -{m})"
%>\
            ${x} = power_of_two(${exponent});
% endfor
</%def>
<%def name="slopes()">\
% for i, j, h, e in quarters(policy.blocks, policy.others):
<%
x, delta = f"{i}_{j}_{2 * h + e}", f"query[{8 * j + e}].y" if side == "k" else f"delta{i}_{h}"
difference = f"(z{x} - {delta})"
%>\
            z${x} = s${x} * ${f"({2.0 ** -shift!r}f * {difference})" if shift else difference};
% endfor
</%def>

## Declare the pairs of x, rounded, as operands of a product.
<%def name="operands(operand, x, type='const uint ')">\
% for i, j, r in ((i, j, r) for i in range(policy.blocks) for j in range(0, policy.others // 8, 2) for r in range(4)):
<% pair = f"{x}{i}_{j + r // 2}_{r % 2 * 2}" %>\
                ${type}${operand}${i}_${j}_${r} = rounded_pair(${pair}, ${pair[:-1]}${r % 2 * 2 + 1});
% endfor
</%def>

<%def name="multiply()"><% B, TK = policy.blocks, policy.others %>\
        if (${needed()}) {
% for i, j in ((i, j) for i in range(B) for j in range(TK // 8)):
            float ${", ".join(f"{x}{i}_{j}_{r} = 0" for x in "sz" for r in range(4))};
% endfor
% for sums, mine, other in (("s", row_arrays[0], tile_arrays[0]), ("z", row_arrays[1], tile_arrays[1])):
            {
${products.scores(B, TK, sums, mine[0], other[0], mine[1], False, " + stage")}\
            }
% endfor
${powers(f"(stage ? {TK}u : 0u)")}\
${slopes()}\
<% gradients = (("z", "e", "a", tile_arrays[0]), ("s", "p", "w", tile_arrays[1])) %>\
% for sums, operand, name, other in gradients[:1 if side == "q" else 2]:
            {
${operands(operand, sums)}\
${products.results(B, TK, name, operand, other[0] + "t", other[1], " + stage")}\
            }
% endfor
        }
</%def>
