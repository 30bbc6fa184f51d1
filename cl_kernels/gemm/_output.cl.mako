## Store the sums of a work-group's tile in C.  RESULT(acc, row, col) is the value of an element; STORE(p, v) writes it.
##
## tile: portable_gpu.ops.gemm.tiled.tile.RegisterTile; tile.sums() yields, for each block of sums in a row, its name,
## and its row and column relative to the work-item's first sum.  problem, policy, contiguous: as in
## gemm.
## In scope: m, n, c, c_row, c_col; first_row, first_col, of the tile; item_row, item_col, of the work-item's first sum
## in the tile; warp, lane and the sums (_register_tile); t; local_memory.

<%namespace name="gather" file="/gemm/_gather.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>

## The offset, in elements, of column `col` of C from column 0.
<%def name="column_offset(col)">${col if contiguous else f"{col} * c_col"}</%def>

## Each work-item stores its sums, as vectors of `width` (a divisor of n), or one by one if `width` is 1.
## Of a triangle of C, vectors are stored only in tiles that are inside of it.
<%def name="direct(tile, width)">\
<% c_type = problem.c.elem.value if problem.c.elem.complex else problem.c.elem.storage %>\
    const long item_first_row = first_row + item_row, item_first_col = first_col + item_col;
    // The numbers of rows and columns from the work-item's first sum to the end of C, at most those of a tile.
    const int rows_left = (int)min(m - item_first_row, ${policy.tile_m}l);
    const int cols_left = (int)min(n - item_first_col, ${policy.tile_n}l);
% for acc, row, col in tile.sums():
    {
        __global ${c_type} *to = c + ((item_first_row + ${row}) * c_row + ${column_offset('item_first_col')});
% for j in range(0, tile.width_n, width):
<%
    coordinates = [f"item_first_row + {row}, item_first_col + {col + i}" for i in range(j, j + width)]
    inside = f"{row} < rows_left && {col + j} < cols_left"
%>\
% if width > 1:
        if (${inside})
            *(__global ${tile.real}${width} *)&to[${col + j}] =
                (${tile.real}${width})(${", ".join(
                    f"RESULT({acc}.s{j + i:x}, {at})" for i, at in enumerate(coordinates))});
% else:
        if (${inside}${triangle.only(problem, f'item_first_row + {row}', f'item_first_col + {col + j}')})
            STORE(to + ${column_offset(col + j)}, RESULT(${acc}${component(tile.width_n, j)}, ${coordinates[0]}));
% endif
% endfor
    }
% endfor
</%def>

## As `direct`; the argument store_width of the kernel selects one of `widths`.
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

## The distinct rows (columns) of a work-item's sums, relative to its first one.
<%! offsets_of = lambda tile, side: dict.fromkeys(
    row if side == "row" else col + j for _, row, col in tile.sums() for j in range(tile.width_n)) %>
