## The blocks of 64 rows, and columns, of a front.
##
##             c     w    u - w           A front is cut into blocks in each of three parts, so that a tile
##         +-----+                        of two blocks lies in memory by two strides: the panel's by rows,
##      c  |panel|                        `leading` apart; the update's by rows of w, and where its columns
##         +-----+-----+                  are the last ones, transposed.
##      w  |     |  .  |
##         +-----+-----+-----+            The packed update:   (i + e, j)               of (i, j), j < w
##  u - w  |     |     |  .  |                                 (j - w, i - w + 1 - e)   of others
##         +-----+-----+-----+
## They take columns, rows, panel, leading and update of _front.

## c, u, m = c + u, w.
<%def name="sizes()">\
const int c = (int)columns, u = (int)rows, m = c + u, w = (u + 1) / 2;
</%def>

## The tile of column block s and row block f: where they begin, s0 and f0, and how many they have, left_s
## and left_f.
<%def name="tile()">\
const int blocks_c = (c + 63) / 64, blocks_w = (w + 63) / 64;
% for b in "sf":
    const int part_${b} = ${b} < blocks_c ? 0 : ${b} < blocks_c + blocks_w ? 1 : 2;
    const int ${b}0 = part_${b} == 0 ? 64 * ${b} : part_${b} == 1 ? c + 64 * (${b} - blocks_c) : c + w + 64 * (${b} - blocks_c - blocks_w);
    const int left_${b} = min((part_${b} == 0 ? c : part_${b} == 1 ? c + w : m) - ${b}0, 64);
% endfor
</%def>

## v: where the front's element (0, 0) would be for this tile; v_row, v_col: from a column, and from a row,
## to the next.  factor, arena: their first elements.
<%def name="place(e)">\
const bool is_panel = part_s == 0;
    const int e = 1 - u % 2;
    const long v_row = part_s == 2 ? w : 1, v_col = is_panel ? leading : part_s == 1 ? w : 1;
    __global ${e.name}_t *v = is_panel ? factor + panel : arena + update;
    if (part_s == 1) v -= (long)(c - e) * w + c;
    if (part_s == 2) v -= (long)(c + w) * w + c + w - 1 + e;
</%def>
