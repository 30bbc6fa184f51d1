## Panels of P and Q, the factors of a tile's products: see tiles and _tile.  In local memory they have 16 steps of k,
## and a pitch of 68 for the 64 lines of each.

## Load a panel to registers NAME0 ... NAME3, and store these in local memory.  Each work-item has four of its elements.
## lines: the number of lines that exist; other lines are zeros.  number: an expression for the index of a step.
<%def name="place(along, i)">\
const int step = ${f"t % 4 + {4 * i}" if along else f"t / 64 + {4 * i}"}, line = ${"t / 4" if along else "t % 64"};\
</%def>
<%def name="fetch(name, source, line, step, lines, along, steps='', number='step')">\
% for i in range(4):
{ ${place(along, i)} ${name}${i} = line < ${lines}${f" && step < {steps}" if steps else ""}
    ? ${problem.elem.name}_load(${source} + line * ${line} + ${number} * ${step}) : (value_t)(0); }
% endfor
</%def>
<%def name="put(name, part, along, conjugation='')">\
% for i in range(4):
{ ${place(along, i)} ${part}[step * 68 + line] = ${conjugation}(${name}${i}); }
% endfor
</%def>
<%def name="fetch_p(k, steps='')">\
${fetch("p", f"l + s0 * l_row + ({k}) * l_col", "l_row", "l_col", "left_s", p_along, steps)}\
</%def>
<%def name="fetch_q(k, steps='')">\
<% x, line, step = ("l", "l_row", "l_col") if factorise else ("v", "v_col", "v_row") %>\
${fetch("q", f"{x} + f0 * {line} + ({k}) * {step}", line, step, "left_f", q_along, steps)}</%def>

## The elements of one step: NAME0 ... of a work-item's rows, or of its columns.
<%def name="rows(name, source)">\
% if problem.elem.complex:
const value_t ${", ".join(f"{name}{i} = ({source})[{depth} * y + {i}]" for i in range(depth))};
% else:
const real4_t ${", ".join(f"{name}s{i} = *(__local const real4_t *)(({source}) + {depth} * y + {4 * i})"
    for i in range(depth // 4))};
                const value_t ${", ".join(f"{name}{i} = {name}s{i // 4}.s{i % 4}" for i in range(depth))};
% endif
</%def>
<%def name="columns(name, source)">\
const value_t ${", ".join(f"{name}{j} = ({source})[x + {4 * depth * j}]" for j in range(16 // depth))};
</%def>

## Subtract the products of some steps of two panels from v.
<%def name="subtract(v, p, q, steps, conjugation='', unroll='')">\
#pragma unroll ${unroll}
                for (int step = 0; step < ${steps}; ++step) {
                    ${rows("a", f"{p} + step * 68")}
                    ${columns("b", f"{q} + step * 68")}
% for i in range(depth):
% for j in range(16 // depth):
                    SUBTRACT(${v}${i}_${j}, ${conjugation}(a${i}), b${j});
% endfor
% endfor
                }
</%def>

## Panels of the rows below a front's own columns; the X of such a row is number `row` of all.
<%def name="fetch_p_below(k, steps)">\
${fetch("p", f"below + s0 * l_row + ({k}) * leading", "l_row", "leading", "left_s", p_along, steps)}\
</%def>
<%def name="fetch_q_below(k, steps)">\
${fetch("q", "x_all + f0", "v_col", "count", "left_f", q_along, steps, f"row[{k} + step]")}\
</%def>
