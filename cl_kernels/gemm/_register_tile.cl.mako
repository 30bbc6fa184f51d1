## The register tile of one work-item: item_m x item_n sums, named acc<row>_<column block>.
##
##   lanes_m x lanes_n work-items   a block of `width` rows (columns) each, then the next block
##   side by side                   lanes_m * width further on, so that neighbours read neighbours
##
##   rows of lane 0, 1, ... | 0 0 0 0 | 1 1 1 1 | ... | 0 0 0 0 | 1 1 1 1 | ...   (width 4, 2 blocks)
##
## tile: portable_gpu.ops.gemm.simt.RegisterTile.
<%def name="place(tile)">
    const int warp = t / ${tile.lanes}, lane = t % ${tile.lanes};
    const int item_row = warp / ${tile.warps_n} * ${tile.warp_m} + lane / ${tile.lanes_n} * ${tile.width_m};
    const int item_col = warp % ${tile.warps_n} * ${tile.warp_n} + lane % ${tile.lanes_n} * ${tile.width_n};
% for i in range(tile.item_m):
    ${tile.type_n} ${", ".join(f"acc{i}_{j} = ({tile.type_n})(0)" for j in range(tile.blocks_n))};
% endfor
</%def>

## Fragments of one step of k: local memory to the registers PREFIXa0 ..., PREFIXb0 ...
<%def name="declare(tile, prefix)">
    ${tile.type_m} ${", ".join(f"{prefix}a{i}" for i in range(tile.blocks_m))};
    ${tile.type_n} ${", ".join(f"{prefix}b{j}" for j in range(tile.blocks_n))};
</%def>
<%def name="fetch(tile, prefix, buffer, k)">
% for i in range(tile.blocks_m):
    ${prefix}a${i} = *(__local const ${tile.type_m} *)&A_LOCAL(${buffer}, ${k}, item_row + ${i * tile.stride_m});
% endfor
% for j in range(tile.blocks_n):
    ${prefix}b${j} = *(__local const ${tile.type_n} *)&B_LOCAL(${buffer}, ${k}, item_col + ${j * tile.stride_n});
% endfor
</%def>
<%def name="multiply(tile, prefix)">
% for i in range(tile.item_m):
% for j in range(tile.blocks_n):
    MAD(acc${i}_${j}, ${prefix}a${i // tile.width_m}${component(tile.width_m, i % tile.width_m)}, ${prefix}b${j});
% endfor
% endfor
</%def>

## All steps of one tile.  With tile.prefetch the fragments of the next step are on their way
## while those of this one are multiplied (the second level of prefetch).
<%def name="steps(tile, depth, buffer)">
% if tile.prefetch:
    ${declare(tile, "p")}
    ${declare(tile, "q")}
    ${fetch(tile, "p", buffer, "0")}
    #pragma unroll ${tile.unroll}
    for (int s = 0; s < ${depth}; s += 2) {
        ${fetch(tile, "q", buffer, "s + 1")}
        ${multiply(tile, "p")}
        ${fetch(tile, "p", buffer, f"(s + 2) % {depth}")}
        ${multiply(tile, "q")}
    }
% else:
    ${declare(tile, "p")}
    #pragma unroll ${tile.unroll}
    for (int s = 0; s < ${depth}; ++s) {
        ${fetch(tile, "p", buffer, "s")}
        ${multiply(tile, "p")}
    }
% endif
</%def>
