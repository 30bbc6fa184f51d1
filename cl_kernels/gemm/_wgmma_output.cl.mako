## How the sums of a warpgroup reach C.  In the r-th block of 64 rows, a work-item holds sums of rows top
## and top + apart: sum 4j + 2h + e belongs to row top + 64r + apart * h and column left + 8j + e.  So the
## four lanes of a quad hold 8 adjacent elements, two each.
##
## registers  whether A came from registers: apart is 1, not 8, and the next quad's rows are two further
##            on, not one (see _wgmma_registers)
## width   "": two at a time by STORE_PAIR (see _units); "fours" or "octets": 16 bytes at a time, lines
##         of 128 bytes, after the lanes of a quad have exchanged what they hold, and then two quads;
##         "lines": one at a time, 32 lanes side by side, by way of local memory: for rows of C that begin
##         off the grid of pairs
<%namespace name="warps" file="/gemm/_warp_exchange.cl.mako"/>
<%def name="store(policy, sums, width, type, registers, pair)">
% if width == "lines":
${lines(policy, sums, type)}
% elif pair == "columns":
${columns(policy, sums, type)}
% else:
${rows(policy, sums, width, type, registers)}
% endif
</%def>

## 16 rows of a warp and 32 columns at a time; 40 floats a row of `scratch` keep lanes off each other's banks.
<%def name="scratch(policy)">
    __local float scratch[${4 * policy.consumers * 16 * 40}] __attribute__((aligned(16)));
</%def>

<%def name="lines(policy, sums, type)">
            __local float *own = scratch + t / 32 * 640;
% for r in range(policy.blocks):
            {
                const long top = first_row + above * 64 + ${64 * r} + t / 32 % 4 * 16;
                const int rows = (int)min(m - top, 16l);
% for left in range(0, policy.tile_n, 32):
                if (first_col + ${left} < n) {
                    __local float2 *pairs = (__local float2 *)(own + lane / 4 * 40 + lane % 4 * 2);
% for j in range(left // 8, left // 8 + 4):
% for h in range(2):
                    pairs[${160 * h + 4 * (j - left // 8)}] = (float2)(${sums}${r}_${4 * j + 2 * h}, ${sums}${r}_${4 * j + 2 * h + 1});
% endfor
% endfor
                    WARP_BARRIER();
                    const long col = first_col + ${left} + lane;
                    __global ${type} *line = c + top * c_row + col;
#pragma unroll 4
                    for (int i = 0; i < rows; ++i, line += c_row)
                        if (col < n) STORE(line, RESULT(own[40 * i + lane], top + i, col));
                    WARP_BARRIER();
                }
% endfor
            }
% endfor
</%def>

<%def name="rows(policy, sums, width, type, registers)">
<% apart, next, twice = (1, 2, "2 * ") if registers else (8, 1, "") %>
            const long top = ${top(registers)};
% if width:
            const int upper = lane / 4 % 2;
            const long at = first_col + ${"upper * 32 + lane % 4 * 8" if width == "octets" else "upper * 16 + lane % 2 * 8 + lane % 4 / 2 * 4"};
            const int columns = (int)min(n - at, ${policy.tile_n}l);
% else:
            const long left = first_col + lane % 4 * 2;
            const int columns = (int)min(n - left, ${policy.tile_n}l);
% endif
% for r in range(policy.blocks):
% for h in range(2):
            {
                const long row = top + ${64 * r + apart * h};
% if width:
                __global ${type} *line = c + (row - ${twice}upper) * c_row + at;
% for j in range(0, policy.tile_n // 8, 8 if width == "octets" else 4):
                {
                    ${whole_lines(width, sums, r, h, j)}
                    if (row - ${twice}upper < m && ${8 * j} < columns) *(__global uint4 *)(line + ${8 * j}) = x;
                    if (row - ${twice}upper + ${next} < m && ${8 * j} < columns) *(__global uint4 *)(line + ${twice}c_row + ${8 * j}) = y;
                }
% endfor
% else:
                __global ${type} *line = c + row * c_row + left * c_col;
                if (row < m) {
% for j in range(policy.tile_n // 8):
                    STORE_PAIR(line, ${8 * j}, row, left, ${sums}${r}_${4 * j + 2 * h}, ${sums}${r}_${4 * j + 2 * h + 1});
% endfor
                }
% endif
            }
% endfor
% endfor
</%def>

## With A from registers and C's rows adjacent in memory (pair is "columns"): two rows of a column at a
## time, so that a warp stores whole sectors, by one address that advances.
<%def name="columns(policy, sums, type)">
            const long top = ${top(True)}, left = first_col + lane % 4 * 2;
            const int columns = (int)min(n - left, ${policy.tile_n}l);
% for r in range(policy.blocks):
            {
                const long row = top + ${64 * r};
                __global ${type} *line = c + row * c_row + left * c_col;
                if (row < m) {
% for j in range(policy.tile_n // 8):
% for e in range(2):
                    if (${8 * j + e} < columns) PUT(line${" + c_col" * e}, RESULT(${sums}${r}_${4 * j + e}, row, left + ${8 * j + e}), RESULT(${sums}${r}_${4 * j + 2 + e}, row + 1, left + ${8 * j + e}));
% endfor
                    line += 8 * c_col;
% endfor
                }
            }
% endfor
</%def>

## The first row of C that a work-item holds sums of.
<%def name="top(registers)">\
% if registers:
first_row + above * 64 + t / 64 % 2 * 32 + lane / 8 % 2 * 16 + t / 32 % 2 * 8 + lane / 16 * 4 + lane / 4 % 2 * 2\
% else:
first_row + above * 64 + t / 32 % 4 * 16 + lane / 4\
% endif
</%def>

<%def name="two(sums, r, h, j)"><%
return ", ".join(f"RESULT({sums}{r}_{4 * j + 2 * h + e}, row, first_col + lane % 4 * 2 + {8 * j + e})" for e in range(2))
%></%def>

## x and y: 16 bytes each of two rows, in lines of 32 floats or 64 halves.
<%def name="whole_lines(width, sums, r, h, j)">
% if width == "octets":
% for k, piece in enumerate("xy"):
                    uint4 ${piece} = quad_transpose((uint4)(${", ".join(f"packed_pair({two(sums, r, h, j + 4 * k + i)})" for i in range(4))}), lane);
% endfor
% else:
% for k, piece in enumerate("xy"):
                    uint4 ${piece} = as_uint4(pair_transpose((float4)(${", ".join(two(sums, r, h, j + 2 * k + i) for i in range(2))}), lane));
% endfor
% endif
                    share_pieces(&x, &y, upper, 4);
</%def>

## See _warp_exchange; and quad_transpose(w, lane): a lane's component i goes to the i-th lane of its quad;
## pair_transpose(v, lane): a lane's half i goes to the i-th lane of its pair.
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
static inline float4 pair_transpose(float4 v, int lane)
{
    const bool odd = lane & 1;
    const float p = as_float(exchanged(as_uint(odd ? v.x : v.z), 1)), q = as_float(exchanged(as_uint(odd ? v.y : v.w), 1));
    return odd ? (float4)(p, q, v.z, v.w) : (float4)(v.x, v.y, p, q);
}
</%def>
