## The stores of the sums (`sums`: their name, d or s) of a warpgroup of wgmma.  In the r-th block of 64 rows, a
## work-item holds sums of two rows: sum d<r>_<4j + 2h + e> belongs to row top + 64r + row_step * h and column left +
## 8j + e, for h, e = 0, 1.  So the four lanes of a quad hold 8 adjacent elements, two each.
##
## registers  whether A is read from registers (_wgmma_registers): then row_step is 1, and not 8, and adjacent quads
##            are quad_rows = 2 rows apart, and not 1
## width   "": as pairs, by STORE_PAIR (see _units)
##         "fours" (of floats), "octets" (of halves): as lines of 128 bytes, 16 bytes a lane.  The lanes of a quad
##         exchange sums, and then the lanes of two quads do: the lower quad has the first half of a line of both
##         quads' rows, the upper quad the second half.  Of the columns after the last whole line of a tile, 32 halves
##         are stored as half a line, others as pairs.
##         "lines": row by row, 32 adjacent lanes, through local memory, for unaligned rows of C (_wgmma_lines)
##         "columns": 8 bytes a lane where C's rows are adjacent in memory (_wgmma_columns)
<%namespace name="gather" file="/gemm/_gather.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%namespace name="line_by_line" file="/gemm/_wgmma_lines.cl.mako"/>
<%namespace name="chunks" file="/gemm/_wgmma_chunks.cl.mako"/>
<%namespace name="by_columns" file="/gemm/_wgmma_columns.cl.mako"/>
<%def name="store(policy, sums, width, type, registers, pair)">
% if width == "lines":
${line_by_line.store(policy, sums, type)}
% elif width == "columns":
${by_columns.eight_bytes(policy, sums, type)}
% elif pair == "columns":
${by_columns.row_pairs(policy, sums, type)}
% else:
${rows(policy, sums, width, type, registers)}
% endif
</%def>

## Stores along rows: of the blocks of 8 columns of a tile, those before `in_lines` are stored as whole lines, those
## before `in_chunks` as half a line, and the others as pairs.  upper: whether this is the upper of two quads that
## exchange sums.  wide_line: the lower quad's row, from column `at` on; wide_columns: the columns of C from `at` on.
<%def name="rows(policy, sums, width, type, registers)">
<%
row_step, quad_rows, factor = (1, 2, "2 * ") if registers else (8, 1, "")
lower_row, upper_row = f"row - {factor}upper", f"row - {factor}upper + {quad_rows}"  # of the two quads
line_blocks = {"octets": 8, "fours": 4}.get(width)
in_lines = policy.tile_n // 8 // line_blocks * line_blocks if width else 0
half_line = width == "octets" and policy.tile_n // 8 - in_lines >= 4
in_chunks = in_lines + 4 * half_line
reader = problem.c.reader
of_row = lambda row: f"({capture(gather.offset, 'c', reader, f'(int)({row})').strip()})" if reader else f"{row} * c_row"
%>
            const long top = ${by_columns.top_row(registers)};
% if in_lines:
            const int upper = lane / 4 % 2;
            const long at = first_col + ${("upper * 32 + lane % 4 * 8"
                if width == "octets" else "upper * 16 + lane % 2 * 8 + lane % 4 / 2 * 4")};
            const int wide_columns = (int)min(n - at, ${policy.tile_n}l);
% endif
% if half_line:
            const long half_at = first_col + lane % 4 * 8 + ${8 * in_lines};
% endif
% if in_chunks < policy.tile_n // 8:
            const long left = first_col + lane % 4 * 2;
            const int columns = (int)min(n - left, ${policy.tile_n}l);
% endif
% if in_chunks and problem.extras:
${chunks.load_columns(8 * in_chunks)}\
% endif
% for r in range(policy.blocks):
% for h in range(2):
            {
                const long row = top + ${64 * r + row_step * h};
% if in_chunks and problem.extras:
${chunks.load_row()}\
% endif
% if in_lines:
                __global ${type} *wide_line = c + ${of_row(f"({lower_row})")} + at;
% if reader:
                __global ${type} *next_line = c + ${of_row(f"({upper_row})")} + at;
% endif
% for j in range(0, in_lines, line_blocks):
                {
                    ${chunks.whole_lines(width, sums, r, h, j)}
                    if (${lower_row} < m && ${8 * j} < wide_columns)
                        *(__global uint4 *)(wide_line + ${8 * j}) = x;
                    if (${upper_row} < m && ${8 * j} < wide_columns)
                        *(__global uint4 *)(${"next_line" if reader else f"wide_line + {factor}c_row"} + ${8 * j}) = y;
                }
% endfor
% endif
% if half_line:
                {
                    const uint4 x = ${chunks.chunk(width, sums, r, h, in_lines)};
                    if (row < m && half_at < n) *(__global uint4 *)(c + ${of_row("row")} + half_at) = x;
                }
% endif
% if in_chunks < policy.tile_n // 8:
                __global ${type} *line = c + ${of_row("row")} + left * c_col;
                if (row < m) {
% for j in range(in_chunks, policy.tile_n // 8):
                    STORE_PAIR(line, ${8 * j}, row, left, ${sums}${r}_${4 * j + 2 * h},
                        ${sums}${r}_${4 * j + 2 * h + 1});
% endfor
                }
% endif
            }
% endfor
% endfor
</%def>

## Store the elements of a tile across the diagonal one by one (see _triangle).
<%def name="each(policy, problem, sums, type, registers)">
            const long top = ${by_columns.top_row(registers)}, left = first_col + lane % 4 * 2;
% for r, h in ((r, h) for r in range(policy.blocks) for h in range(2)):
            {
                const long row = top + ${64 * r + h * (1 if registers else 8)};
${triangle.line(problem, type)}\
% for j in range(policy.tile_n // 8):
% for e in range(2):
                if (begin <= ${8 * j + e} && ${8 * j + e} < end)
                    STORE(line${" + c_col" * e}, RESULT(${sums}${r}_${4 * j + 2 * h + e}, row, left + ${8 * j + e}));
% endfor
                line += 8 * c_col;
% endfor
            }
% endfor
</%def>
