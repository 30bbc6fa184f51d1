## Panels of P and Q, the factors of a tile's products V -= P Q, in factor/tiles and the kernels of fronts that have
## tiles: see _tile.  A panel has 16 steps of k, and in each step 64 lines: rows of P, or columns of Q.  In local memory
## element (step, line) is at 68 step + line; a pitch of 68 instead of 64 puts steps into different banks.

## Declare `step` and `line` of element i (0 to 3) of a work-item in a panel.  along: whether neighbouring work-items
## have neighbouring steps of a line, which are neighbours in memory; else they have neighbouring lines.
<%def name="place(along, i)">\
const int step = ${f"t % 4 + {4 * i}" if along else f"t / 64 + {4 * i}"}, line = ${"t / 4" if along else "t % 64"};\
</%def>

## Load a work-item's elements of the panel at the pointer `source` to registers NAME0 ... NAME3.  line_stride,
## step_stride: its strides, in elements.  lines, steps: how many exist; others are zeros (without `steps` all 16 do).
## number: a C expression for the place of `step` in memory, if that is not `step` itself.
<%def name="fetch(name, source, line_stride, step_stride, lines, along, steps='', number='step')">\
% for i in range(4):
{ ${place(along, i)} ${name}${i} = line < ${lines}${f" && step < {steps}" if steps else ""}
    ? ${problem.elem.name}_load(${source} + line * ${line_stride} + ${number} * ${step_stride}) : (value_t)(0); }
% endfor
</%def>

## Store these registers in the panel at `part` in local memory.  conjugation: CONJ, or nothing.
<%def name="put(name, part, along, conjugation='')">\
% for i in range(4):
{ ${place(along, i)} ${part}[step * 68 + line] = ${conjugation}(${name}${i}); }
% endfor
</%def>

## Load the panels of P and Q from step k on to p0 ... p3 and q0 ... q3.
<%def name="fetch_p(k, steps='')">\
${fetch("p", f"l + s0 * l_row + ({k}) * l_col", "l_row", "l_col", "left_s", p_along, steps)}\
</%def>
<%def name="fetch_q(k, steps='')">\
<% array, line_stride, step_stride = ("l", "l_row", "l_col") if factorise else ("v", "v_col", "v_row") %>\
${fetch("q", f"{array} + f0 * {line_stride} + ({k}) * {step_stride}", line_stride, step_stride, "left_f", q_along,
    steps)}</%def>

## Declare the elements of the step that begins at `source`: NAME0 ... of a work-item's rows, or of its columns (see
## _tile).
<%def name="rows(name, source)">\
% if problem.elem.complex:
const value_t ${", ".join(f"{name}{i} = ({source})[{item_rows} * y + {i}]" for i in range(item_rows))};
% else:
const real4_t ${", ".join(f"{name}s{i} = *(__local const real4_t *)(({source}) + {item_rows} * y + {4 * i})"
    for i in range(item_rows // 4))};
                const value_t ${", ".join(f"{name}{i} = {name}s{i // 4}.s{i % 4}" for i in range(item_rows))};
% endif
</%def>
<%def name="columns(name, source)">\
const value_t ${", ".join(f"{name}{j} = ({source})[x + {4 * item_rows * j}]" for j in range(16 // item_rows))};
</%def>

## Subtract the products of the first `steps` steps of the panels p and q from v.  conjugation: CONJ, for p, or nothing.
## unroll: how many steps the compiler unrolls.
<%def name="subtract(v, p, q, steps, conjugation='', unroll='')">\
#pragma unroll ${unroll}
                for (int step = 0; step < ${steps}; ++step) {
                    ${rows("a", f"{p} + step * 68")}
                    ${columns("b", f"{q} + step * 68")}
% for i in range(item_rows):
% for j in range(16 // item_rows):
                    SUBTRACT(${v}${i}_${j}, ${conjugation}(a${i}), b${j});
% endfor
% endfor
                }
</%def>

## fetch_p and fetch_q for the backward solve with fronts (fronts/solve), over L's rows k below a front's own columns:
## `below` points to the first of them, and the X of row k is row `row[k]` of the whole right-hand side, x_all, which
## has `count` columns.
<%def name="fetch_p_below(k, steps)">\
${fetch("p", f"below + s0 * l_row + ({k}) * leading", "l_row", "leading", "left_s", p_along, steps)}\
</%def>
<%def name="fetch_q_below(k, steps)">\
${fetch("q", "x_all + f0", "v_col", "count", "left_f", q_along, steps, f"row[{k} + step]")}\
</%def>
