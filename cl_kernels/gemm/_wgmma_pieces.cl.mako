## 16 bytes of a row of C, combined from the sums of adjacent lanes (see _wgmma_output).
##
##   exchange()       the C functions that the others use
##   piece(...)       16 bytes of one row;   whole_lines(...): 16 bytes of each of two rows
##   load_columns(count), load_row()     declare the elements of the epilogue's vectors, for `count` columns or for
##                    a row; outside of C, the last ones.  Lane l has those of columns l, l + 32, ...
<%namespace name="warps" file="/gemm/_warp_exchange.cl.mako"/>
## Two adjacent results of a row, as two arguments.
<%def name="two_results(sums, r, h, j)"><%
pairs = [(f"{sums}{r}_{4 * j + 2 * h + e}", f"row, first_col + lane % 4 * 2 + {8 * j + e}", e) for e in range(2)]
if not problem.extras:
    return ", ".join(f"RESULT({acc}, {at})" for acc, at, _ in pairs)
value = lambda i, e: f"x{i}" if by_rows(i) else f"of_lane(x{i}_{j // 4 * 32}, lane % 4 * 2 + {j % 4 * 8 + e})"
return ", ".join(f"EPILOGUE_OF_VALUES(scaled(alpha, {acc}), {at}, "
    + ", ".join(value(i, e) for i in range(len(problem.extras))) + ")" for acc, at, e in pairs)
%></%def>

## Whether the i-th vector of the epilogue has an element for each row of C, not for each column.
<%def name="by_rows(i)"><%
extra = problem.extras[i]
return not (extra.row if problem.transposed else extra.col)
%></%def>
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
<%def name="element(i, at)"><%
stride = "row" if by_rows(i) != problem.transposed else "col"
return f"{problem.extras[i].elem.name}_load(e{i} + {at} * e{i}_{stride})"
%></%def>

## An expression for 16 bytes of a row.  They are a part of the 32 halves of a quad of lanes, or of the 8 floats of a
## pair of lanes, which begin at the j-th eight columns.
<%def name="piece(width, sums, r, h, j)"><%
if width == "octets":
    pairs = ", ".join(f"packed_pair({two_results(sums, r, h, j + i)})" for i in range(4))
    return f"quad_transpose((uint4)({pairs}), lane)"
return "as_uint4(pair_transpose((float4)(" + ", ".join(two_results(sums, r, h, j + i) for i in range(2)) + "), lane))"
%></%def>

## Declare x and y: 16 bytes of each of two rows, in lines of 32 floats or 64 halves (see _wgmma_output).
<%def name="whole_lines(width, sums, r, h, j)">
                    uint4 x = ${piece(width, sums, r, h, j)};
                    uint4 y = ${piece(width, sums, r, h, j + (4 if width == "octets" else 2))};
                    share_pieces(&x, &y, upper, 4);
</%def>

## The functions of _warp_exchange, and: quad_transpose(w, lane) moves component i of a lane to the i-th lane of its
## quad; pair_transpose(v, lane) moves half i of a lane to the i-th lane of its pair; share_words is as share_pieces.
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
static inline void share_words(uint *v, uint *w, int upper, uint distance)
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
