## What a group of 256 does with its tile V of 64 x 64 elements: see tiles.  Work-item (y, x) of 64 / R x
## 4 R holds the rows R y + i and the columns x + 4 R j of V, v0_0 ... ; R: `depth`, 4 or 8.

<%def name="define()">
#define GIVEN(v) ${"CONJ(v)" if conj else "(v)"}
${subtraction(problem.elem)}
</%def>
<%def name="subtraction(e)">
% if e.complex:
#define SUBTRACT(v, p, q) (v.x = v.x - (p).x * (q).x, v.y = v.y - (p).x * (q).y, \
                           v.x = v.x + (p).y * (q).y, v.y = v.y - (p).y * (q).x)
% else:
#define SUBTRACT(v, p, q) (v = v - (p) * (q))
% endif
</%def>

## v = C; beyond the matrix V goes on as the unit matrix does, and above L's diagonal it is 0.
<%def name="input(source)">\
% for i in range(depth):
% for j in range(16 // depth):
    {
        const int row = ${depth} * y + ${i}, col = x + ${4 * depth * j};
        v${i}_${j} = AS_VALUE(${"s == f && row == col" if factorise else "0"});
        if (row < left_s && col < left_f${" && (s < f || row <= col)" if factorise else ""})
            v${i}_${j} = ${problem.elem.name}_load(${source} + (s0 + row) * ${source}_row + (f0 + col) * ${source}_col);
    }
% endfor
% endfor
</%def>

## In fronts, columns right of an update's middle lie along f.
## Rows `from` to `from` + 15 of V to memory; all of them from one on.
<%def name="out(row, col, value)">\
<% at = f"v + (s0 + {row}) * v_row + (f0 + {col}) * v_col" %>\
${problem.elem.name}_store(${at}, ${f"{problem.elem.name}_load({at}) + " if adds else ""}${value})\
</%def>
<%def name="store_rows(from_row)">\
<% either = in_fronts and factorise %>\
{
        const int from = ${from_row};
% if either:
        if (v_row == 1) {
% endif
% if by_s:
        // By way of local memory, so that neighbours write neighbours.
        __local value_t *stage = from & 16 ? q_part : p_part;
        if (y / ${16 // depth} == from / 16) {
% for i in range(depth):
% for j in range(16 // depth):
            stage[(x + ${4 * depth * j}) * 17 + ${depth} * y % 16 + ${i}] = v${i}_${j};
% endfor
% endfor
        }
        barrier(CLK_LOCAL_MEM_FENCE);
% for i in range(4):
        {
            const int row = from + t % 16, col = t / 16 + ${16 * i};
            if (row < left_s && col < left_f) {
                const value_t w = stage[col * 17 + t % 16];
                ${stored("w")}
            }
        }
% endfor
% endif
% if either:
        } else
% endif
% if either or not by_s:
        if (y / ${16 // depth} == from / 16) {
% for i in range(depth):
% for j in range(16 // depth):
            {
                const int row = ${depth} * y + ${i}, col = x + ${4 * depth * j};
                if (row < left_s && col < left_f) {
                    ${stored(f"v{i}_{j}")}
                }
            }
% endfor
% endfor
        }
% endif
    }
</%def>
<%def name="store(first)">\
barrier(CLK_LOCAL_MEM_FENCE);
    for (int rows = ${first}; rows < left_s; rows += 16) ${store_rows("rows")}
</%def>
<%def name="stored(value)">\
<%
if factorise and problem.elem.complex:  # L's diagonal is real
    value = f"(s == f && row == col ? AS_VALUE(REAL({value})) : {value})"
%>\
% if not factorise:
${out("row", "col", value)};
% elif separate:
${out("row", "col", f"s < f || row <= col ? {value} : (value_t)(0)")};
                if (s < f) ${problem.elem.name}_store(v + (f0 + col) * v_row + (s0 + row) * v_col, (value_t)(0));
% else:
if (s < f || row <= col) ${out("row", "col", value)};
% endif
</%def>
