## The products of a tile: see tiles and _tile.  Panels of P and Q in local memory have 16 steps of k, and
## 68 places for the 64 lines of each.
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="tickets" file="/factor/_tickets.cl.mako"/>

## A panel from memory to registers NAME0 ... NAME3, and from there to local memory.  Each work-item has
## four of its elements.  lines: how many there are; the others are 0.  number: which step is meant by a
## step's number.
<%def name="place(along, i)">\
const int step = ${f"t % 4 + {4 * i}" if along else f"t / 64 + {4 * i}"}, line = ${"t / 4" if along else "t % 64"};\
</%def>
<%def name="fetch(name, source, line, step, lines, along, steps='', number='step')">\
% for i in range(4):
{ ${place(along, i)} ${name}${i} = line < ${lines}${f" && step < {steps}" if steps else ""} ? ${problem.elem.name}_load(${source} + line * ${line} + ${number} * ${step}) : (value_t)(0); }
% endfor
</%def>
<%def name="put(name, part, along, given='')">\
% for i in range(4):
{ ${place(along, i)} ${part}[step * 68 + line] = ${given}(${name}${i}); }
% endfor
</%def>
<%def name="fetch_p(k, steps='')">${fetch("p", f"l + s0 * l_row + ({k}) * l_col", "l_row", "l_col", "left_s", p_along, steps)}</%def>
<%def name="fetch_q(k, steps='')">\
<% x, line, step = ("l", "l_row", "l_col") if factorise else ("v", "v_col", "v_row") %>\
${fetch("q", f"{x} + f0 * {line} + ({k}) * {step}", line, step, "left_f", q_along, steps)}</%def>

## The elements of one step: NAME0 ... of a work-item's rows, or of its columns.
<%def name="rows(name, source)">\
% if problem.elem.complex:
const value_t ${", ".join(f"{name}{i} = ({source})[{depth} * y + {i}]" for i in range(depth))};
% else:
const real4_t ${", ".join(f"{name}s{i} = *(__local const real4_t *)(({source}) + {depth} * y + {4 * i})" for i in range(depth // 4))};
                const value_t ${", ".join(f"{name}{i} = {name}s{i // 4}.s{i % 4}" for i in range(depth))};
% endif
</%def>
<%def name="columns(name, source)">\
const value_t ${", ".join(f"{name}{j} = ({source})[x + {4 * depth * j}]" for j in range(16 // depth))};
</%def>

## Of rows below a front's own columns, whose X lies at `row` of all.
<%def name="fetch_p_below(k, steps)">${fetch("p", f"below + s0 * l_row + ({k}) * leading", "l_row", "leading", "left_s", p_along, steps)}</%def>
<%def name="fetch_q_below(k, steps)">${fetch("q", "x_all + f0", "v_col", "count", "left_f", q_along, steps, f"row[{k} + step]")}</%def>

## v -= P Q over k from `first` to `last`; the next panels travel while these are multiplied.  Of a front,
## `last` may lie within a panel.
<%def name="products(first, last, p=None, q=None)">\
<%
p, q = p or fetch_p, q or fetch_q
left = f"{last} - ({{}})" if in_fronts else ""
%>\
value_t p0, p1, p2, p3, q0, q1, q2, q3;
            ${p(first, left.format(first))}
            ${q(first, left.format(first))}
            for (long k = ${first}; k < ${last}; k += 16) {
                ${put("p", "p_part", p_along, "GIVEN")}
                ${put("q", "q_part", q_along)}
                barrier(CLK_LOCAL_MEM_FENCE);
                if (k + 16 < ${last}) {
                    ${p("k + 16", left.format("k + 16"))}
                    ${q("k + 16", left.format("k + 16"))}
                }
% if mma:
                ${matrix.multiply()}
% else:
#pragma unroll 4
                for (int step = 0; step < 16; ++step) {
                    ${rows("a", "p_part + step * 68")}
                    ${columns("b", "q_part + step * 68")}
% for i in range(depth):
% for j in range(16 // depth):
                    SUBTRACT(v${i}_${j}, a${i}, b${j});
% endfor
% endfor
                }
% endif
                barrier(CLK_LOCAL_MEM_FENCE);
            }
</%def>

## v -= P Q over all k, as far at a time as the tiles that it takes are there.  below: over the rows below a
## front's own columns first.
<%def name="all(below=False)">\
% if mma:
${matrix.declare()}
% endif
% if below:
    {
        ${products("0", "u", fetch_p_below, fetch_q_below)}
    }
% endif
    for (int known = 0; known < known_by;) {
        if (t == 0) {
            until = known;
            while (until < known_by && ${tickets.is_done("until")}) ++until;
            DEVICE_FENCE();
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const int to = until;
        if (to > known) {
            GROUP_FENCE();
            ${products("64l * known", "min(64l * to, (long)c)" if in_fronts else "64l * to")}
            known = to;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% if mma:
    ${matrix.subtract_sums()}
% endif
</%def>
