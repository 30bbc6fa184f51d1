## The stores of the sums of a group's tile of gemm to C: RESULT(acc, row, col) is the value of an element and STORE(p,
## v) stores it.
##
## tile: portable_gpu.ops.gemm.tiled.tile.RegisterTile; tile.sums() yields, for each block of sums in a row, its name,
## and its row and column from the work-item's first sum on.  problem, policy: as in gemm.
## In scope: m, n, c, c_row, c_col; first_row, first_col, of the tile; item_row, item_col, of the work-item's first sum
## in the tile; warp, lane and the sums (_register_tile); t; local_memory.

<%namespace name="gather" file="/gemm/_gather.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>

## Each work-item stores its sums, as vectors of `width` (a divisor of n), or one by one if `width` is 1.  The distance
## of a sum's place from that of the first sum is the same for all work-items.
<%def name="direct(tile, width)">
    const long c_item = (first_row + item_row) * c_row + (first_col + item_col) * c_col;
% for acc, row, col in tile.sums():
    {
        const long row = first_row + item_row + ${row}, col = first_col + item_col + ${col};
% if width > 1:
% for j in range(0, tile.width_n, width):
        if (row < m && col + ${j} < n)
            *(__global ${tile.real}${width} *)&c[c_item + (${row} * c_row + ${col + j})] =
                (${tile.real}${width})(${", ".join(f"RESULT({acc}.s{i:x}, row, col + {i})"
                for i in range(j, j + width))});
% endfor
% else:
% for j in range(tile.width_n):
        if (row < m && col + ${j} < n${triangle.only(problem, 'row', f'col + {j}')})
            STORE(c + c_item + (${row} * c_row + ${col + j} * c_col),
            RESULT(${acc}${component(tile.width_n, j)}, row, col + ${j}));
% endfor
% endif
    }
% endfor
</%def>

## The same by one of some widths, by the argument store_width.
<%def name="any_width(tile, widths)">
% for width in widths[:-1]:
    if (store_width == ${width}) {
${direct(tile, width)}\
    } else {
% endfor
${direct(tile, widths[-1])}\
    ${"}" * (len(widths) - 1)}
</%def>

## If C has a reader (_gather): each work-item stores its sums one by one, and computes the offsets of its rows (or
## columns: reader.side) once.
<%def name="gathered(tile)"><% side = problem.c.reader.side %>
    const int first_s = (int)first_${side} + item_${side};
% for s in offsets_of(tile, side):
    const long c_at${s} = ${gather.offset("c", problem.c.reader, f"(first_s + {s})")};
% endfor
% for acc, row, block_col in tile.sums():
% for j in range(tile.width_n):
    {
        const long row = first_row + item_row + ${row}, col = first_col + item_col + ${block_col + j};
        if (row < m && col < n)
<% offset = f"c_at{row} + col * c_col" if side == "row" else f"row * c_row + c_at{block_col + j}" %>\
            STORE(c + (${offset}),
                RESULT(${acc}${component(tile.width_n, j)}, row, col));
    }
% endfor
% endfor
</%def>
## The different rows (columns) of a work-item's sums, relative to its first one.
<%! offsets_of = lambda tile, side: dict.fromkeys(
    row if side == "row" else col + j for _, row, col in tile.sums() for j in range(tile.width_n)) %>

## For each i, the i-th row of every work-item is copied to local memory, one line for a row of C, so that neighbouring
## work-items store neighbouring elements:
##
##   line | columns 0 to tile_n - 1 |      tile_m / item_m lines: lanes_m of the first row of warps, then of the next
##
<%def name="repacked(tile, policy)">
    __local value_t *lines = (__local value_t *)local_memory;
    const int line = warp / ${tile.warps_n} * ${tile.lanes_m} + lane / ${tile.lanes_n};
% for i in range(tile.item_m):
% for j in range(tile.blocks_n):
    *(__local ${tile.type_n} *)&lines[line * ${policy.tile_n} + item_col + ${j * tile.stride_n}] = acc${i}_${j};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = t; e < ${tile.lines * policy.tile_n}; e += ${policy.group_size}) {
        const int line_of_e = e / ${policy.tile_n};
        const long row = first_row + line_of_e / ${tile.lanes_m} * ${tile.warp_m}
            + line_of_e % ${tile.lanes_m} * ${tile.width_m} + ${tile.row(i)};
        const long col = first_col + e % ${policy.tile_n};
        if (row < m && col < n${triangle.only(problem, 'row', 'col')})
            STORE(c + row * c_row + col * c_col, RESULT(lines[e], row, col));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% endfor
</%def>
