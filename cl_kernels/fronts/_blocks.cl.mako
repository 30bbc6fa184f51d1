## The blocks of 64 rows, and of 64 columns, of a front of a sparse factor (ops/fronts/table.py), on a GPU: in assemble,
## tiles, update and small.
##
##             c     w    u - w           A front has c own columns and u further rows.  Its rows and columns have
##         +-----+                        three parts, of c, w and u - w.  Blocks do not cross parts, so that a tile,
##      c  |panel|                        a block of rows by a block of columns, has two strides.  The panel is stored
##         +-----+-----+                  by rows with the stride `leading`.  The update is a lower triangle, and is
##      w  |     |  .  |                  stored by rows of w elements.  Its element (i, j) is stored
##         +-----+-----+-----+               if j < w     at row i + e, column j
##  u - w  |     |     |  .  |               otherwise    at row j - w, column i - w + 1 - e
##         +-----+-----+-----+
## with e = 1 if u is even, else 0.  In scope: columns, rows, panel, leading and update, which _front declares.

## Declare the numbers of own columns c, further rows u, all rows m = c + u, and w, half of u rounded up.
<%def name="sizes()">\
const int c = (int)columns, u = (int)rows, m = c + u, w = (u + 1) / 2;
</%def>

## Declare, for the tile of column block s and row block f, their starts s0 and f0 and their sizes left_s and left_f, in
## columns and rows of the front.  part_s, part_f: the part of the front in the picture, 0 to 2.
<%def name="tile()">\
const int blocks_c = (c + 63) / 64, blocks_w = (w + 63) / 64;
% for b in "sf":
    const int part_${b} = ${b} < blocks_c ? 0 : ${b} < blocks_c + blocks_w ? 1 : 2;
    const int ${b}0 = part_${b} == 0 ? 64 * ${b} : part_${b} == 1 ? c + 64 * (${b} - blocks_c)
        : c + w + 64 * (${b} - blocks_c - blocks_w);
    const int left_${b} = min((part_${b} == 0 ? c : part_${b} == 1 ? c + w : m) - ${b}0, 64);
% endfor
</%def>

## Declare where the tile is stored.  The tile V of factor/_tile is its transpose, so v_row is the stride from column to
## column of the front, and v_col that from row to row.  v: the address that element (0, 0) of the front would have by
## these strides.
## In scope: factor and arena, pointers to their first elements; the names that `sizes` and `tile` declare.
## The argument e is the Element; the variable e is that of the formula.
<%def name="place(e)">\
const bool is_panel = part_s == 0;
    const int e = 1 - u % 2;
    const long v_row = part_s == 2 ? w : 1, v_col = is_panel ? leading : part_s == 1 ? w : 1;
    __global ${e.name}_t *v = is_panel ? factor + panel : arena + update;
    if (part_s == 1) v -= (long)(c - e) * w + c;
    if (part_s == 2) v -= (long)(c + w) * w + c + w - 1 + e;
</%def>
