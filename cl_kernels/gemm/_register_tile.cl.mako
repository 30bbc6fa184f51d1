## The register tile of one work-item of gemm: item_m x item_n sums, named acc<row>_<column block>.
##
## A warp has lanes_m x lanes_n work-items.  The rows (columns) of a work-item are in blocks of `width` adjacent ones,
## which are lanes_m * width (lanes_n * width) apart, so that adjacent work-items read adjacent blocks:
##
##   lane of each row       | 0 0 0 0 | 1 1 1 1 | ... | 0 0 0 0 | 1 1 1 1 | ...   (width 4, 2 blocks)
##
## tile: portable_gpu.ops.gemm.tiled.tile.RegisterTile.  A fragment is what a work-item reads for one step of k: a block
## of a column of A, or of a row of B.  A_LOCAL, B_LOCAL, A_PITCH, B_PITCH: see _panel.

## Declare the work-item's warp and lane, its first row and column in the tile, and its sums.
<%def name="place(tile)">
    const int warp = t / ${tile.lanes}, lane = t % ${tile.lanes};
    const int item_row = warp / ${tile.warps_n} * ${tile.warp_m} + lane / ${tile.lanes_n} * ${tile.width_m};
    const int item_col = warp % ${tile.warps_n} * ${tile.warp_n} + lane % ${tile.lanes_n} * ${tile.width_n};
% for i in range(tile.item_m):
    ${tile.type_n} ${", ".join(f"acc{i}_{j} = ({tile.type_n})(0)" for j in range(tile.blocks_n))};
% endfor
</%def>

## Point a_from and b_from, variables in scope, to the fragments of step 0 of k in one pair of panels.
<%def name="point(buffer)">
    a_from = &A_LOCAL(${buffer}, 0, item_row);
    b_from = &B_LOCAL(${buffer}, 0, item_col);
</%def>

## Declare the registers of the fragments of one step of k, PREFIXa0 ... and PREFIXb0 ...; load them from local memory;
## add their products to the sums.
<%def name="declare(tile, prefix)">
    ${tile.fragment_m} ${", ".join(f"{prefix}a{i}" for i in range(tile.blocks_m))};
    ${tile.fragment_n} ${", ".join(f"{prefix}b{j}" for j in range(tile.blocks_n))};
</%def>
<%def name="fetch(tile, prefix, k)">
% for i in range(tile.blocks_m):
    ${prefix}a${i} = *(__local const ${tile.fragment_m} *)(a_from + (${k}) * A_PITCH + ${i * tile.stride_m});
% endfor
% for j in range(tile.blocks_n):
    ${prefix}b${j} = *(__local const ${tile.fragment_n} *)(b_from + (${k}) * B_PITCH + ${j * tile.stride_n});
% endfor
</%def>
<%def name="multiply(tile, prefix)">
% for i in range(tile.item_m):
% for j in range(tile.blocks_n):
    ${tile.mad}(acc${i}_${j}, ${prefix}a${i // tile.width_m}${component(tile.width_m, i % tile.width_m)},
        ${prefix}b${j});
% endfor
% endfor
</%def>

## Multiply all `depth` steps of k of one pair of panels.
<%def name="steps(tile, depth)">
    #pragma unroll ${tile.unroll}
    for (int s = 0; s < ${depth}; ++s) {
        ${declare(tile, "p")}
        ${fetch(tile, "p", "s")}
        ${multiply(tile, "p")}
    }
</%def>

## Multiply all `depth` steps of k of one pair of panels, whose first fragments are already in the registers p.  The
## fragments of the next step are loaded to the registers q while those of this step are multiplied, then the roles of
## p and q change. `depth` is even.  switch: statements that switch to the next pair of panels, before the last step is
## multiplied.
<%def name="steps_ahead(tile, depth, switch)">
    #pragma unroll ${tile.unroll}
    for (int s = 0; s < ${depth - 2}; s += 2) {
        ${fetch(tile, "q", "s + 1")}
        ${multiply(tile, "p")}
        ${fetch(tile, "p", "s + 2")}
        ${multiply(tile, "q")}
    }
    ${fetch(tile, "q", depth - 1)}
    ${multiply(tile, "p")}
    ${switch}
    ${fetch(tile, "p", 0)}
    ${multiply(tile, "q")}
</%def>
