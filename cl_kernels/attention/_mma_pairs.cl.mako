## A part of mma_backward, whose head has the formulas: its products; the counterpart for warpgroups is _wgmma_pairs.
## In scope there: first_own, the warp's first own row; t0, the tile's first row of the other side; stage, its offset in
## local memory in bytes; row_arrays, tile_arrays: the two own arrays and the two of the other side, each as (name,
## padded extent, extent); s is the product of the two first arrays, dp that of the two second ones.
<%namespace name="pairs" file="/attention/_gradient_pairs.cl.mako"/>
<%namespace name="products" file="/attention/_products.cl.mako"/>

## Declare the addresses (NAME_at) and offsets (NAME_column) by which a lane loads matrices of each array: see
## _products.  The other side's first array is also multiplied by ds and, for side k, the second one by p.  For these
## transposed loads there are NAMEt_at and NAMEt_column.
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

## An expression: whether a key of the tile is seen by a query of the warp's rows, or a key of these by a query of the
## tile.
<%def name="needed()">\
<% if_causal = f"t0 < first_own + {16 * policy.blocks}u" if side == "q" else f"t0 + {policy.others}u > first_own" %>\
${if_causal if causal else "true"}\
</%def>

## All products of a tile.  First come the scores s and the gradients dp of probabilities.  The registers of s then hold
## the probabilities p, and those of dp the gradients ds of scores.  The product of ds and the other side's first array
## is added to dx, the sums of dq or dk; for side k, that of p and the second array is added to dv.
<%def name="multiply()"><% B, TK = policy.blocks, policy.others %>\
        if (${needed()}) {
% for block, j in ((block, j) for block in range(B) for j in range(TK // 8)):
            float ${", ".join(f"{sums}{block}_{j}_{r} = 0" for sums in ("s", "dp") for r in range(4))};
% endfor
% for sums, own, other in (("s", row_arrays[0], tile_arrays[0]), ("dp", row_arrays[1], tile_arrays[1])):
            {
${products.scores(B, TK, sums, own[0], other[0], own[1], False, " + stage")}\
            }
% endfor
${pairs.exponentials(f"(stage ? {TK}u : 0u)")}\
${pairs.score_gradients()}\
<% gradients = (("dp", "ds", "dx", tile_arrays[0]), ("s", "p", "dv", tile_arrays[1])) %>\
% for sums, operand, name, other in gradients[:1 if side == "q" else 2]:
            {
${pairs.operands(operand, sums)}\
${products.results(B, TK, name, operand, other[0] + "t", other[1], " + stage")}\
            }
% endfor
        }
</%def>
