## Operands whose elements are gathered (portable_gpu.ops.gemm.reader.Gather, which has the same formula).  Element
## (s, k) of operand NAME is at the offset, in elements,
##
##   sum over axes d of s_d * NAME_axis<d>  +  NAME_steps[k % period].x  +  k / period * NAME_repeat
##
## s_d is the index of the row (column) s along axis d.  The table NAME_steps is repeated only if reader.wraps.
##
## An element outside of the bounds is zero.  The reader checks its last `places` axes: along such an axis d the
## coordinate s_d * NAME_pitch<d> + NAME_steps[k % period].y must be in [0, NAME_bound<d>), with .y for the first of
## these axes, and .z and .w for the next ones.  `axes` (portable_gpu.codegen.axes) writes this arithmetic as C
## expressions.
##
## A panel's work-item keeps the offsets and the coordinates of its rows in registers, and reads an entry of the table
## for each k.  Rows, and steps of k, that several of its loads share are declared once:
##
##   NAME_s<i>, NAME_k<i>, NAME_r<i>   of load i: the row and the step of k in the panel; its register
##   NAME_row<u>                       the pointer to the u-th distinct row, panel.rows[u]
##   NAME_row<u>_place<d>              the coordinate of that row along the checked axis d, without the step's part
##   NAME_at<v>                        the index in the table of the v-th distinct step, panel.columns[v]
##   NAME_far<v>                       k / period * NAME_repeat of that step
##
##   offset(name, reader, index)    C expression: the offset of row (column) `index`, without the offset of a step
##   place, load, advance           of a panel: see _panel

<%def name="offset(name, reader, index)">\
${axes.offset("axis", name, axes.digits(f"{name}_axis", reader.rank, index))}\
</%def>

## Declare the positions of the work-item's loads.  NAME_last: the last row from which a load may begin.
<%def name="place(panel, first, count, begin)"><% n, r = panel.name, panel.reader %>
    const int ${n}_last = (int)min(${panel.extent}l, ${count} - ${first}) - ${panel.width if panel.along == "s" else 1};
% for i in range(panel.loads):
    const int ${n}_s${i} = ${panel.place_s(i)}, ${n}_k${i} = ${panel.place_k(i)};
% endfor
% for u, s in enumerate(panel.rows):
    const int ${n}_index${u} = (int)${first} + min(${s}, ${n}_last);
<% digits = axes.digits(f"{n}_axis", r.rank, f"{n}_index{u}") %>\
    __global const ${panel.elem.name}_t *const ${n}_row${u} = ${n} + (${axes.offset("axis", n, digits)});
% for d in range(r.rank - r.places, r.rank):
    const int ${n}_row${u}_place${d} = ${digits[d]} * ${n}_pitch${d};
% endfor
% endfor
% for v, k in enumerate(panel.columns):
% if r.wraps:
    int ${n}_at${v} = (int)((${begin} + ${k}) % ${n}_period);
    long ${n}_far${v} = (${begin} + ${k}) / ${n}_period * ${n}_repeat;
% else:
    int ${n}_at${v} = (int)(${begin}) + ${k};
% endif
% endfor
    ${n}_raw ${", ".join(f"{n}_r{i}" for i in range(panel.loads))};
</%def>

## Load a step's panel.  ends: whether only the first `tail` of its steps of k exist.  e<v>: the entry of the v-th step.
<%def name="load(panel, ends)">
<% n, r, first_checked = panel.name, panel.reader, panel.reader.rank - panel.reader.places %>\
    {
% for v, k in enumerate(panel.columns):
        const ${r.entry_type} e${v} = ${f"{k} >= tail ? ({r.entry_type})(0) : " if ends else ""}${n}_steps[${n}_at${v}];
% endfor
% for i in range(panel.loads):
<%
u, v = panel.rows.index(panel.place_s(i)), panel.columns.index(panel.place_k(i))
entry = f"e{v}.x" if r.places else f"e{v}"
inside = [f"(uint)({n}_row{u}_place{d} + e{v}.{'yzw'[d - first_checked]}) < (uint){n}_bound{d}"
    for d in range(first_checked, r.rank)]
inside += [f"{panel.columns[v]} < tail"] if ends else []
element = f"*(__global const {n}_raw *)({n}_row{u} + ({entry}{f' + {n}_far{v}' if r.wraps else ''}))"
%>\
        ${n}_r${i} = ${f"{' && '.join(inside)} ? {element} : ({n}_raw)(0)" if inside else element};
% endfor
    }
</%def>

## Advance by `steps` of k, at most the period.
<%def name="advance(panel, steps)"><% n = panel.name %>\
% for v in range(len(panel.columns)):
    ${n}_at${v} += ${steps};
% if panel.reader.wraps:
    if (${n}_at${v} >= ${n}_period) {
        ${n}_at${v} -= ${n}_period;
        ${n}_far${v} += ${n}_repeat;
    }
% endif
% endfor
</%def>
