## Panels of P and Q, the factors of a tile's products V -= P Q: see tiles and _tile.  A panel has 16 steps of k, and in
## each step 64 lines: rows of P, or columns of Q.  In local memory element (step, line) is at 68 step + line; a pitch
## of 68 instead of 64 puts steps into different banks.

## fetch: load a panel to registers NAME0 ... NAME3; put: store these in local memory.  A work-item has four elements.
## line, step: strides of `source`.  lines, steps: how many exist; others are zeros (without `steps` all 16 exist).
## number: an expression for the place of a step.  along: whether steps of a line, not lines, are neighbours in memory.
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
## Load the panels of P and Q from step k on.
<%def name="fetch_p(k, steps='')">\
${fetch("p", f"l + s0 * l_row + ({k}) * l_col", "l_row", "l_col", "left_s", p_along, steps)}\
</%def>
<%def name="fetch_q(k, steps='')">\
<% x, line, step = ("l", "l_row", "l_col") if factorise else ("v", "v_col", "v_row") %>\
${fetch("q", f"{x} + f0 * {line} + ({k}) * {step}", line, step, "left_f", q_along, steps)}</%def>

## Declare the elements of one step, `source`: NAME0 ... of a work-item's rows, or of its columns (see _tile).
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

## Subtract the products of the first `steps` steps of two panels from v.  conjugation: CONJ, for p, or nothing.
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

## The same for a solve with fronts (fronts/tiles): L's rows below a front's own columns; the X of such a row is row
## `row[k]` of the whole right-hand side, x_all.
<%def name="fetch_p_below(k, steps)">\
${fetch("p", f"below + s0 * l_row + ({k}) * leading", "l_row", "leading", "left_s", p_along, steps)}\
</%def>
<%def name="fetch_q_below(k, steps)">\
${fetch("q", "x_all + f0", "v_col", "count", "left_f", q_along, steps, f"row[{k} + step]")}\
</%def>
