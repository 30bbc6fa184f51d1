## A part of mma_backward: its products; the counterpart for warpgroups is _wgmma_pairs.  In scope there: mine, the
## warp's first own row; t0, the tile's first row of the other side; stage, its offset in local memory in bytes;
## row_arrays, tile_arrays: (name, padded extent, extent) of the own arrays and of the other side's, first that of s.
<%namespace name="pairs" file="/attention/_gradient_pairs.cl.mako"/>
<%namespace name="products" file="/attention/_products.cl.mako"/>

## Declare the addresses (NAME_at) and offsets (NAME_column) by which a lane loads matrices of each array: see
## _products. A tile that is multiplied by e or p as well has NAMEt_at and NAMEt_column, for its transposed loads.
<%def name="places()"><% module = products.module %>\
    const uint row = lane % 16u, key = lane / 16u * 8u + lane % 8u;
% for name, D, _ in row_arrays:
    const uint ${name}_at = ${module.rows(name, D, policy.blocks)};
    uint ${name}_column = ${products.column_of_rows(D)};
% endfor
% for name, D, _ in tile_arrays:
    const uint ${name}_at = ${module.keys(name, D)};
    uint ${name}_column = ${products.column_of_keys(D)};
% endfor
% for name, D, _ in tile_arrays[:1 if side == "q" else 2]:
    const uint ${name}t_at = ${module.values(name, D)};
    uint ${name}t_column = ${products.column_of_rows(D)};
% endfor
</%def>

## An expression: whether the tile has pairs of a warp's rows that are seen.
<%def name="needed()">\
<% if_causal = f"t0 < mine + {16 * policy.blocks}u" if side == "q" else f"t0 + {policy.others}u > mine" %>\
${if_causal if causal else "true"}\
</%def>

## All products of a tile: scores s and gradients z of probabilities; in their place probabilities p and gradients e of
## scores (formulas: see mma_backward); then e and p times the other side's rows, which are added to the sums of
## results: a of dq or dk, and w of dv.
<%def name="multiply()"><% B, TK = policy.blocks, policy.others %>\
        if (${needed()}) {
% for block, j in ((block, j) for block in range(B) for j in range(TK // 8)):
            float ${", ".join(f"{sums}{block}_{j}_{r} = 0" for sums in ("s", "z") for r in range(4))};
% endfor
% for sums, own, other in (("s", row_arrays[0], tile_arrays[0]), ("z", row_arrays[1], tile_arrays[1])):
            {
${products.scores(B, TK, sums, own[0], other[0], own[1], False, " + stage")}\
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
