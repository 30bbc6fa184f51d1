## The products of mma_backward, whose names are used; its counterpart for warpgroups is _wgmma_pairs.
<%namespace name="pairs" file="/attention/_gradient_pairs.cl.mako"/>
<%namespace name="products" file="/attention/_products.cl.mako"/>

## Declare the addresses (NAME_at) and swizzles (NAME_turn) by which a lane loads matrices of each array: see _products.
## A tile that is multiplied by e or p as well has NAMEt_at and NAMEt_turn, for its transposed loads.
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

## An expression: whether the tile has pairs of a warp's rows that are seen.
<%def name="needed()">\
${"true" if not causal else f"t0 < mine + {16 * policy.blocks}u" if side == "q" else f"t0 + {policy.others}u > mine"}\
</%def>

## All products of a tile: s and z, then p and e, then the sums of results a and w.
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
${pairs.powers(f"(stage ? {TK}u : 0u)")}\
${pairs.score_gradients()}\
<% gradients = (("z", "e", "a", tile_arrays[0]), ("s", "p", "w", tile_arrays[1])) %>\
% for sums, operand, name, other in gradients[:1 if side == "q" else 2]:
            {
${pairs.operands(operand, sums)}\
${products.results(B, TK, name, operand, other[0] + "t", other[1], " + stage")}\
            }
% endfor
        }
</%def>
