## One triangle of C, with the diagonal: the elements that are computed, and the tiles that have such elements.
##
##   band     +--+                    lower: col <= row.  Only the tiles that have elements in the triangle are
##   of 2     |0 +--+--+              numbered, band by band; a band has `band` tile rows.  In a band, the tile
##            |1 |2 |3 |              columns in which all tile rows have elements are first, column by column;
##          --+--+--+--+--+--+        then the other columns.  (In this picture tiles are twice as high as they
##            |4 |6 |8 |10|12|        are wide.)
##
## problem.triangle is "" for all of C.  Otherwise the argument is_upper says which triangle is computed, so that both
## have the same text.  Of the upper one (col >= row) the columns with elements in all tile rows are the last ones.
##
##   area(problem)                the number of tiles of a product
##   only(problem, row, col)      ` && ...`, the condition that an element is in the triangle; nothing for all of C
##   inside(...)                  a C expression: whether all elements of a block are in the triangle
##   define(problem, policy)      define triangle_tile(number, tiles_m, tiles_n, is_upper): the row x and column y, in
##                                tiles, of the tile with this number
##   line(problem, type)          for row `row` of a tile and its columns from `left` on, declare `line`, the pointer to
##                                the first of them, and `begin` and `end`: elements begin <= x < end are stored
##   locate(problem, policy)      declare first_row and first_col of the tile with the number `tile`
##   store(...)                   store the sums of a tile: by `fast` if it is inside the triangle, otherwise by `each`
<%def name="area(problem)">${"triangle_tiles" if problem.triangle else "tiles_m * tiles_n"}</%def>

<%def name="only(problem, row, col)">\
% if problem.triangle:
 && (is_upper ? (${col}) >= (${row}) : (${col}) <= (${row}))\
% endif
</%def>

<%def name="inside(row, rows, col, cols)">\
is_upper ? (${row}) + (${rows}) - 1 <= (${col}) : (${col}) + (${cols}) - 1 <= (${row})\
</%def>

<%def name="define(problem, policy)">\
<% M, N, band = policy.tile_m, policy.tile_n, policy.band %>\
% if problem.triangle:
static inline int2 triangle_tile(int number, int tiles_m, int tiles_n, int is_upper)
{
    for (int top = 0;; top += ${band}) {
        const int bottom = min(top + ${band}, tiles_m), rows = bottom - top;
        // Columns [first, end) have elements in all tile rows of the band, columns [left, right) in some.
        const int first = is_upper ? (bottom - 1) * ${M} / ${N} : 0;
        const int end = is_upper ? tiles_n : min(((top + 1) * ${M} + ${N - 1}) / ${N}, tiles_n);
        const int left = is_upper ? top * ${M} / ${N} : end;
        const int right = is_upper ? first : min((bottom * ${M} + ${N - 1}) / ${N}, tiles_n);
        if (number < (end - first) * rows) return (int2)(top + number % rows, first + number / rows);
        number -= (end - first) * rows;
        for (int col = left; col < right; ++col) {
            // The first of the tile rows that have elements, and their number.
            const int above = is_upper ? top : col * ${N} / ${M};
            const int height = (is_upper ? min(((col + 1) * ${N} - 1) / ${M} + 1, bottom) : bottom) - above;
            if (number < height) return (int2)(above + number, col);
            number -= height;
        }
    }
}
% endif
</%def>

<%def name="locate(problem, policy)">\
            const int2 numbers = triangle_tile(tile, tiles_m, tiles_n, is_upper);
            const long first_row = ${policy.tile_m}l * numbers.x, first_col = ${policy.tile_n}l * numbers.y;
</%def>

<%def name="line(problem, type)">\
                __global ${type} *line = c + row * c_row + left * c_col;
                const int begin = is_upper ? (int)(row - left) : 0;
                const int end = row < m ? (int)(is_upper ? n - left : min(n - left, row - left + 1)) : 0;
</%def>

<%def name="store(problem, policy, fast, each)">\
% if problem.triangle:
            if (!(${inside("first_row", policy.tile_m, "first_col", policy.tile_n)})) {
${each()}
            } else {
${fast()}
            }
% else:
${fast()}\
% endif
</%def>
