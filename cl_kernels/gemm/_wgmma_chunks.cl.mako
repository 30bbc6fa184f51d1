## For the stores of wgmma: chunks of 16 bytes of a row of C, combined from the sums of adjacent lanes.  _wgmma_output
## has the stores, and says which sums a lane has.
##
##   exchange()           the C functions that the others use
##   chunk(...)           an expression: a chunk of one row
##   whole_lines(...)     declare x and y, chunks of two rows
##   load_columns(count)  of each vector of the epilogue that has an element for each column, the i-th: declare
##                        x<i>_<first>, the element of column first + lane (beyond C: of the last column), for first =
##                        0, 32 ... below count
##   load_row()           declare x<i>, the element of row `row`, of those vectors that have one for each row
##
## sums: the name of the sums.  r: the block of 64 rows.  h: which of the lane's two rows in it.  j: the block of 8
## columns.  In scope: row, lane, upper, first_col, m, n; alpha; e<i>, the pointers to the epilogue's vectors.
<%namespace name="warps" file="/gemm/_warp_exchange.cl.mako"/>
## The lane's two adjacent results of a row in the j-th block of columns, as two arguments.  Lane q of a quad has the
## columns 2q and 2q + 1 of each block.
<%def name="two_results(sums, r, h, j)"><%
for_rows = [by_rows(i) for i in range(len(problem.extras))]
def result(e):
    acc, place = f"{sums}{r}_{4 * j + 2 * h + e}", f"row, first_col + lane % 4 * 2 + {8 * j + e}"
    if not problem.extras:
        return f"RESULT({acc}, {place})"
    # The lane of the warp that has the elements of the epilogue's vectors for this column.
    lane = f"lane % 4 * 2 + {j % 4 * 8 + e}"
    values = [f"x{i}" if row else f"of_lane(x{i}_{j // 4 * 32}, {lane})" for i, row in enumerate(for_rows)]
    return f"EPILOGUE_OF_VALUES(scaled(alpha, {acc}), {place}, {', '.join(values)})"
return f"{result(0)}, {result(1)}"
%></%def>

## Whether the i-th vector of the epilogue has an element for each row of C, not for each column.
<%def name="by_rows(i)"><%
extra = problem.extras[i]
return not (extra.row if problem.transposed else extra.col)
%></%def>
## A lane loads the element of one column in 32; of_lane gets the elements that other lanes have loaded.
<%def name="load_columns(count)">
% if not all(map(by_rows, range(len(problem.extras)))):
            const int last_col = (int)min(n - first_col, ${count}l) - 1;
% endif
% for i, first in ((i, first) for i in range(len(problem.extras)) for first in range(0, count, 32) if not by_rows(i)):
            const float x${i}_${first} = (float)${element(i, f"(first_col + min(lane + {first}, last_col))")};
% endfor
</%def>
<%def name="load_row()">
% for i in filter(by_rows, range(len(problem.extras))):
                const float x${i} = (float)${element(i, "min(row, m - 1)")};
% endfor
</%def>
## An expression: element `at` of the epilogue's i-th vector.
<%def name="element(i, at)"><%
stride = "row" if by_rows(i) != problem.transposed else "col"
return f"{problem.extras[i].elem.name}_load(e{i} + {at} * e{i}_{stride})"
%></%def>

## An expression: a chunk of a row.  "octets": lane q of a quad gets columns 8q to 8q + 7 of the 32 halves that the quad
## has in the blocks j to j + 3.  Floats: the quad has 16 columns in the blocks j and j + 1; lanes q = 0 and 1 get
## columns 0 to 3 and 8 to 11, lanes q = 2 and 3 columns 4 to 7 and 12 to 15.
<%def name="chunk(width, sums, r, h, j)"><%
if width == "octets":
    pairs = ", ".join(f"packed_pair({two_results(sums, r, h, j + i)})" for i in range(4))
    return f"quad_transpose((uint4)({pairs}), lane)"
floats = ", ".join(two_results(sums, r, h, j + i) for i in range(2))
return f"as_uint4(pair_transpose((float4)({floats}), lane))"
%></%def>

## Declare x and y, chunks of this quad's row and of that of the quad with which it shares, in lines of 32 floats or 64
## halves.  The lower quad (`upper` is 0) gets the first halves of both lines, the upper quad the second halves.
<%def name="whole_lines(width, sums, r, h, j)">
                    uint4 x = ${chunk(width, sums, r, h, j)};
                    uint4 y = ${chunk(width, sums, r, h, j + (4 if width == "octets" else 2))};
                    exchange_chunks(&x, &y, upper, 4);
</%def>

## The functions of _warp_exchange, and
##   quad_transpose(w, lane)   the transpose of the 4 x 4 words of a quad: component i of lane q becomes component q of
##                             lane i
##   pair_transpose(v, lane)   the transpose of the 2 x 2 halves of a pair: half i of lane q becomes half q of lane i
##   exchange_words(...)          exchange_chunks for single words
<%def name="exchange()">
${warps.define()}
static inline uint4 quad_transpose(uint4 w, int lane)
{
    const bool odd = lane & 1, high = lane & 2;
    const uint p = exchanged(odd ? w.x : w.y, 1), q = exchanged(odd ? w.z : w.w, 1);
    w = odd ? (uint4)(p, w.y, q, w.w) : (uint4)(w.x, p, w.z, q);
    const uint r = exchanged(high ? w.x : w.z, 2), s = exchanged(high ? w.y : w.w, 2);
    return high ? (uint4)(r, s, w.z, w.w) : (uint4)(w.x, w.y, r, s);
}
static inline void exchange_words(uint *v, uint *w, int upper, uint distance)
{
    const uint theirs = exchanged(upper ? *v : *w, distance);
    if (upper) *v = theirs;
    else *w = theirs;
}
static inline float4 pair_transpose(float4 v, int lane)
{
    const bool odd = lane & 1;
    const float p = as_float(exchanged(as_uint(odd ? v.x : v.z), 1)),
        q = as_float(exchanged(as_uint(odd ? v.y : v.w), 1));
    return odd ? (float4)(p, q, v.z, v.w) : (float4)(v.x, v.y, p, q);
}
</%def>
