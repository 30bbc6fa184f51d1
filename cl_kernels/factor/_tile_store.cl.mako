## The stores of a tile V, in factor/tiles, fronts/tiles, fronts/solve and fronts/update.  _tile lists the variables in
## scope.  by_columns: whether the elements of a column of V are neighbours in memory.  In fronts that depends on the
## tile: v_row is 1 if they are, but the right half of an update is stored by rows (fronts/_blocks).

## Store the rows of V that a work-item has, as vectors if v_row is 1.  diagonal: whether the tile is on the diagonal;
## then only elements of the triangle are stored.
<%def name="store_item_rows(diagonal)">\
<% e, wide = problem.elem, 16 // problem.elem.itemsize %>\
% for j in range(16 // item_rows):
                {
                    const int col = x + ${4 * item_rows * j};
                    __global ${e.name}_t *to = v + (s0 + ${item_rows} * y) * v_row + (f0 + col) * v_col;
                    const int rows = col < left_f ? left_s - ${item_rows} * y : 0;
% if not e.complex:
                    if (v_row == 1 && rows >= ${item_rows}
                        ${f"&& {item_rows} * y + {item_rows - 1} <= col" if diagonal else ""}
                        && ((ulong)to & 15) == 0) {
% for i in range(0, item_rows, wide):
                        *(__global ${e.real}${wide} *)(to + ${i}) =
                            (${e.real}${wide})(${", ".join(f"v{i + k}_{j}" for k in range(wide))});
% endfor
                    } else
% endif
                    {
% for i in range(item_rows):
<%
value = f"v{i}_{j}"
if diagonal and e.complex:
    value = f"({item_rows} * y + {i} == col ? AS_VALUE(REAL({value})) : {value})"
%>\
                        if (${i} < rows${f" && {item_rows} * y + {i} <= col" if diagonal else ""})
                            ${e.name}_store(to, ${value});
                        to += v_row;
% endfor
                    }
                }
% endfor
</%def>

## Store zeros above L's diagonal, in the rows from `begin` to before `end` of L and its 64 columns from f0 on.  The
## matrix has m columns.
<%def name="zeros(begin, end)">\
for (long i = 64 * (${begin}) + t; i < 64 * (${end}); i += 256) {
        const long row = i / 64, col = f0 + i % 64;
        if (row < col && col < m) ${problem.elem.name}_store(v + col * v_row + row * v_col, (value_t)(0));
    }
</%def>
## A statement: store a value as element (row, col) of V, or add it to the stored one (`adds`).
<%def name="store_element(row, col, value)">\
<% at = f"v + (s0 + {row}) * v_row + (f0 + {col}) * v_col" %>\
${problem.elem.name}_store(${at}, ${f"{problem.elem.name}_load({at}) + " if adds else ""}${value})\
</%def>
## A statement: store a value as the element of V at the C variables row and col, unless it is above L's diagonal.
<%def name="store_in_triangle(value)">\
<%
if factorise and problem.elem.complex:  # L's diagonal is real
    value = f"(s == f && row == col ? AS_VALUE(REAL({value})) : {value})"
%>\
% if not factorise:
${store_element("row", "col", value)};
% else:
if (s < f || row <= col) ${store_element("row", "col", value)};
% endif
</%def>
## Store the 16 rows of V from from_row on.
<%def name="store_rows(from_row)">\
<% chosen_at_run_time = in_fronts and factorise %>\
{
        const int from = ${from_row};
% if chosen_at_run_time:
        if (v_row == 1) {
% endif
% if by_columns:
        // The values pass through local memory, so that neighbouring work-items store neighbouring elements.
        // Successive calls use the memory of P's and of Q's panels alternately, so that one barrier suffices.  A pitch
        // of 17 puts columns into different banks.
        __local value_t *stage = from & 16 ? q_part : p_part;
        if (y / ${16 // item_rows} == from / 16) {
% for i in range(item_rows):
% for j in range(16 // item_rows):
            stage[(x + ${4 * item_rows * j}) * 17 + ${item_rows} * y % 16 + ${i}] = v${i}_${j};
% endfor
% endfor
        }
        barrier(CLK_LOCAL_MEM_FENCE);
% for i in range(4):
        {
            const int row = from + t % 16, col = t / 16 + ${16 * i};
            if (row < left_s && col < left_f) {
                const value_t w = stage[col * 17 + t % 16];
                ${store_in_triangle("w")}
            }
        }
% endfor
% endif
% if chosen_at_run_time:
        } else
% endif
% if chosen_at_run_time or not by_columns:
        if (y / ${16 // item_rows} == from / 16) {
% for i in range(item_rows):
% for j in range(16 // item_rows):
            {
                const int row = ${item_rows} * y + ${i}, col = x + ${4 * item_rows * j};
                if (row < left_s && col < left_f) {
                    ${store_in_triangle(f"v{i}_{j}")}
                }
            }
% endfor
% endfor
        }
% endif
    }
</%def>

## Store all rows of V.
<%def name="store()">\
barrier(CLK_LOCAL_MEM_FENCE);
    for (int rows = 0; rows < left_s; rows += 16) ${store_rows("rows")}
</%def>
