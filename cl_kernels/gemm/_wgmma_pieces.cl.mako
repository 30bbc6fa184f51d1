## 16 bytes of a row of C, combined from the sums of adjacent lanes (see _wgmma_output).
##
##   exchange()     the C functions; whole_lines, piece: 16 bytes of two rows, and of one
<%namespace name="warps" file="/gemm/_warp_exchange.cl.mako"/>
<%def name="two(sums, r, h, j)"><%
column = "first_col + lane % 4 * 2"
return ", ".join(f"RESULT({sums}{r}_{4 * j + 2 * h + e}, row, {column} + {8 * j + e})" for e in range(2))
%></%def>

## 16 bytes of a row, of a quad's 32 halves or a pair's 8 floats from the j-th eight columns on.
<%def name="piece(width, sums, r, h, j)"><%
if width == "octets":
    pairs = ", ".join(f"packed_pair({two(sums, r, h, j + i)})" for i in range(4))
    return f"quad_transpose((uint4)({pairs}), lane)"
return "as_uint4(pair_transpose((float4)(" + ", ".join(two(sums, r, h, j + i) for i in range(2)) + "), lane))"
%></%def>

## x and y: 16 bytes each of two rows, in lines of 32 floats or 64 halves.
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
