## One triangle of C, with the diagonal: the elements that are computed, and the tiles that have such elements.
##
##   band     +--+                    lower: col <= row.  Only the tiles that have elements in the triangle are
##   of 2     |0 +--+--+              numbered, band by band; a band has `band` tile rows.  In a band, the tile
##            |1 |2 |3 |              columns in which all tile rows have elements are first, column by column;
##          --+--+--+--+--+--+        then the other columns.  (In this picture tiles are twice as high as they
##            |4 |6 |8 |10|12|        are wide.)
##
## problem.triangle is "lower", "upper" (col >= row; the columns of all tile rows are the last ones) or "" (all of C).
##
##   area(problem)                the number of tiles of a product
##   only(problem, row, col)      ` && ...`, the condition that an element is in the triangle; nothing for all of C
##   inside(...), reaches(...)    C expressions: whether all, and whether some elements of a block are in the triangle
##   define(problem, policy)      define triangle_tile(at, tiles_m, tiles_n): the row x and column y of tile `at`
##   line(problem, type)          for the columns from `left` on of the row `row` of a tile: declare `line`, the pointer
##                                to the first of them, and begin and end: the elements begin <= x < end are stored
##   locate(problem, policy)      declare first_row and first_col of the tile with the number `tile`
##   store(...)                   store the sums of a tile: by `fast` if it is inside the triangle, otherwise by `each`
<%def name="area(problem)">${"triangle_tiles" if problem.triangle else "tiles_m * tiles_n"}</%def>

<%def name="only(problem, row, col)">\
% if problem.triangle:
 && (${col}) ${"<=" if problem.triangle == "lower" else ">="} (${row})\
% endif
</%def>

<%def name="inside(problem, row, rows, col, cols)">\
% if problem.triangle == "lower":
(${col}) + (${cols}) - 1 <= (${row})\
% else:
(${row}) + (${rows}) - 1 <= (${col})\
% endif
</%def>

<%def name="reaches(problem, row, rows, col, cols)">\
% if problem.triangle == "lower":
(${col}) <= (${row}) + (${rows}) - 1\
% else:
(${row}) <= (${col}) + (${cols}) - 1\
% endif
</%def>

<%def name="define(problem, policy)">\
<% M, N, band = policy.tile_m, policy.tile_n, policy.band %>\
% if problem.triangle:
static inline int2 triangle_tile(int at, int tiles_m, int tiles_n)
{
    for (int top = 0;; top += ${band}) {
        const int bottom = min(top + ${band}, tiles_m), rows = bottom - top;
% if problem.triangle == "lower":
        const int first = 0, end = min(((top + 1) * ${M} + ${N - 1}) / ${N}, tiles_n);
        const int left = end, right = min((bottom * ${M} + ${N - 1}) / ${N}, tiles_n);
% else:
        const int first = (bottom - 1) * ${M} / ${N}, end = tiles_n;
        const int left = top * ${M} / ${N}, right = first;
% endif
        if (at < (end - first) * rows) return (int2)(top + at % rows, first + at / rows);
        at -= (end - first) * rows;
        for (int col = left; col < right; ++col) {
% if problem.triangle == "lower":
            const int above = col * ${N} / ${M}, height = bottom - above;
% else:
            const int above = top, height = min(((col + 1) * ${N} - 1) / ${M} + 1, bottom) - top;
% endif
            if (at < height) return (int2)(above + at, col);
            at -= height;
        }
    }
}
% endif
</%def>

<%def name="locate(problem, policy)">\
            const int2 numbers = triangle_tile(tile, tiles_m, tiles_n);
            const long first_row = ${policy.tile_m}l * numbers.x, first_col = ${policy.tile_n}l * numbers.y;
</%def>

<%def name="line(problem, type)">\
                __global ${type} *line = c + row * c_row + left * c_col;
% if problem.triangle == "lower":
                const int begin = 0, end = row < m ? (int)min(n - left, row - left + 1) : 0;
% else:
                const int begin = (int)(row - left), end = row < m ? (int)(n - left) : 0;
% endif
</%def>

<%def name="store(problem, policy, fast, each)">\
% if problem.triangle:
            if (!(${inside(problem, "first_row", policy.tile_m, "first_col", policy.tile_n)})) {
${each()}
            } else {
${fast()}
            }
% else:
${fast()}\
% endif
</%def>
