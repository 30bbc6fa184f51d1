## The stores of the sums of a group's tile of gemm to C: RESULT(acc, row, col) is the value of an element and STORE(p,
## v) stores it.
##
## tile: portable_gpu.ops.gemm.tiled.tile.RegisterTile; tile.sums() yields, for each block of sums in a row, its name,
## and its row and column from the work-item's first sum on.  problem, policy, contiguous: as in
## gemm.
## In scope: m, n, c, c_row, c_col; first_row, first_col, of the tile; item_row, item_col, of the work-item's first sum
## in the tile; warp, lane and the sums (_register_tile); t; local_memory.

<%namespace name="gather" file="/gemm/_gather.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>

## The distance of column `col` of C from column 0.
<%def name="along_row(col)">${col if contiguous else f"{col} * c_col"}</%def>

## Each work-item stores its sums, as vectors of `width` (a divisor of n), or one by one if `width` is 1.
<%def name="direct(tile, width)">\
<% stored = problem.c.elem.value if problem.c.elem.complex else problem.c.elem.storage %>\
    const long item_first_row = first_row + item_row, item_first_col = first_col + item_col;
    // The numbers of rows and columns of C from the work-item's first sum on, of those of a tile.
    const int rows_left = (int)min(m - item_first_row, ${policy.tile_m}l);
    const int cols_left = (int)min(n - item_first_col, ${policy.tile_n}l);
% for acc, row, col in tile.sums():
    {
        __global ${stored} *from = c + ((item_first_row + ${row}) * c_row + ${along_row('item_first_col')});
% for j in range(0, tile.width_n, width):
<%
    place = [f"item_first_row + {row}, item_first_col + {col + i}" for i in range(j, j + width)]
    inside = f"{row} < rows_left && {col + j} < cols_left"
%>\
% if width > 1:
        if (${inside})
            *(__global ${tile.real}${width} *)&from[${col + j}] =
                (${tile.real}${width})(${", ".join(f"RESULT({acc}.s{j + i:x}, {at})" for i, at in enumerate(place))});
% else:
        if (${inside}${triangle.only(problem, f'item_first_row + {row}', f'item_first_col + {col + j}')})
            STORE(from + ${along_row(col + j)}, RESULT(${acc}${component(tile.width_n, j)}, ${place[0]}));
% endif
% endfor
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
