## The stores of the sums of a warpgroup of wgmma to a C whose rows are adjacent in memory.  _wgmma_output says which
## lane has which sums: its parameters, `sums` among them, and its letters r, h, j are those of this file.  In scope: t,
## lane, above (the number of the warpgroup's first block of 64 rows in the tile), first_row, first_col, m, n, C's
## pointer and strides.

<%namespace name="gather" file="/gemm/_gather.cl.mako"/>
<%namespace name="chunks" file="/gemm/_wgmma_chunks.cl.mako"/>
## Stores of 8 bytes, whose rows a reader of C has next to each other.  A lane has two adjacent columns of two rows (h =
## 0 and 1), which are 8 rows apart.  Exchanges make its sums neighbours in a column:
##
##   1. Each lane exchanges with the lane of the adjacent row (lane ^ 4).  Now each has one column of both rows: v<h> is
##      in the upper row, and w<h> in the lower one.  The lane of the lower row has the right column, and its `odd` is
##      1.  Both lanes' rows begin at `top`.
##   2. Of 16-bit elements, p is the packed pair (v0, w0), and q is (v1, w1).  Each lane exchanges one of them with the
##      lane of the next two rows (lane ^ 8).  Now each has four rows of a column, and stores fill whole memory sectors.
##      The lane with `upper` = 1 has the rows of h = 1.  They begin 8 rows below those of the other lane, and its `top`
##      is 2 rows below the other one, so 6 are added.
<%def name="eight_bytes(policy, sums, type)">
<%
halves, reader = problem.c.elem.itemsize == 2, problem.c.reader
def of_row(row):
    """C expression: the offset of a row of C."""
    return f"({capture(gather.offset, 'c', reader, f'(int)({row})').strip()})" if reader else f"({row}) * c_row"
%>\
            const int odd = lane / 4 % 2${", upper = lane / 8 % 2" if halves else ""};
            const long top = ${top_row(False)} - odd, left = first_col + lane % 4 * 2 + odd;
            const int columns = (int)min(n - left, ${policy.tile_n}l);
% if problem.extras:
${chunks.load_columns(policy.tile_n)}\
% endif
% for r in range(policy.blocks):
            {
                const long row = top + ${64 * r}${" + 6 * upper" if halves else ""};
                __global ${type} *line = c + ${of_row("row")} + left * c_col;
% if not halves:
                __global ${type} *next_line = c + ${of_row("row + 8")} + left * c_col;
% endif
% for j in range(policy.tile_n // 8):
                {
% for h in range(2):
                    uint v${h} = as_uint(${sums}${r}_${4 * j + 2 * h}),
                        w${h} = as_uint(${sums}${r}_${4 * j + 2 * h + 1});
                    exchange_words(&v${h}, &w${h}, odd, 4);
% endfor
% for i in (i for i in range(len(problem.extras)) if not chunks.by_rows(i)):
                    const float x${i} = of_lane(x${i}_${j // 4 * 32}, lane % 4 * 2 + odd + ${j % 4 * 8});
% endfor
% if halves:
                    uint p = packed_pair(${rows_of(r, 0, j)}), q = packed_pair(${rows_of(r, 1, j)});
                    exchange_words(&p, &q, upper, 8);
                    if (row < m && ${8 * j} < columns) *(__global uint2 *)line = (uint2)(p, q);
% else:
% for h in range(2):
                    if (row + ${8 * h} < m && ${8 * j} < columns)
                        STORE_TWO(${("line", "next_line")[h]}, ${rows_of(r, h, j)});
% endfor
                    next_line += 8 * c_col;
% endif
                    line += 8 * c_col;
                }
% endfor
            }
% endfor
</%def>

## The results v<h>, w<h> of two adjacent rows in column block j, as two arguments.  x<i> is the element for this column
## of the epilogue's i-th vector; where it has an element for each row instead, that is read, also beyond the last row.
<%def name="rows_of(r, h, j)"><%
def result(value, e):
    row = f"top + {64 * r + 8 * h + e}"
    place = f"as_float({value}{h}), {row}, left + {8 * j}"
    if not problem.extras:
        return f"RESULT({place})"
    values = [f"(float){chunks.element(i, f'min({row}, m - 1)').strip()}" if by_rows else f"x{i}"
        for i, by_rows in enumerate(map(chunks.by_rows, range(len(problem.extras))))]
    return f"EPILOGUE_OF_VALUES(scaled(alpha, as_float({value}{h})), {row}, left + {8 * j}, {', '.join(values)})"
return ", ".join(result(value, e) for e, value in enumerate("vw"))
%></%def>

## Stores of two rows of a column, for an A from registers (pair is "columns"): a lane has adjacent rows, and a warp
## stores whole memory sectors.  One address advances from column to column.
<%def name="row_pairs(policy, sums, type)">
            const long top = ${top_row(True)}, left = first_col + lane % 4 * 2;
            const int columns = (int)min(n - left, ${policy.tile_n}l);
% for r in range(policy.blocks):
            {
                const long row = top + ${64 * r};
                __global ${type} *line = c + row * c_row + left * c_col;
                if (row < m) {
% for j in range(policy.tile_n // 8):
% for e in range(2):
                    if (${8 * j + e} < columns) STORE_TWO(line${" + c_col" * e},
                        RESULT(${sums}${r}_${4 * j + e}, row, left + ${8 * j + e}),
                        RESULT(${sums}${r}_${4 * j + 2 + e}, row + 1, left + ${8 * j + e}));
% endfor
                    line += 8 * c_col;
% endfor
                }
            }
% endfor
</%def>

## An expression: the first row of C of a work-item's sums.  Of a block of 64 rows, each warp has 16, and each of its
## quads has one of the first 8.  With `registers`, quad 4 g2 + 2 g1 + g0 of warp w has row 32 (w / 2) + 16 g1 +
## 8 (w % 2) + 4 g2 + 2 g0 (see _wgmma_registers).
<%def name="top_row(registers)">\
% if registers:
first_row + above * 64 + t / 64 % 2 * 32 + lane / 8 % 2 * 16 + t / 32 % 2 * 8 + lane / 16 * 4 + lane / 4 % 2 * 2\
% else:
first_row + above * 64 + t / 32 % 4 * 16 + lane / 4\
% endif
</%def>
