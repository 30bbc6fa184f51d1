## cpu_rows: a statistic over each row, then a map over the row, on a CPU.
##
##   along    row 0 | V V V ... | tail |        V elements of a row; the elements after whole vectors one by one
##   across   rows 0 .. V-1 | V | V | ...       an element of V neighbouring rows; rows after whole blocks one by one
##
## A group is one work-item.  It computes rows_each rows, or blocks of V rows.  Each phase of the program (a RowProgram)
## reads the row, which is in the cache after the first one, and the map reads it again.  With launch "fold", `parts`
## groups share each row or block, and each group stores the accumulators of its part; with "map", each group combines
## all parts in order and maps its part.
##
## U: vectors of a step.  inlined: the functions of the program that are inlined here.  Others: see _program.  partial:
## the workspace, [row][part][field of the accumulators].  span: elements of a part.  s: the accumulator of a row.
<%namespace name="program" file="/normalize/_program.cl.mako"/>
<%namespace name="loops" file="/normalize/_cpu_loops.cl.mako"/>
<%namespace name="values" file="/normalize/_row_values.cl.mako"/>
<%namespace name="exponential" file="/common/exponential.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
% for width in [1 << k for k in range(V.bit_length())]:
% if "exp" in inlined:
${exponential.define(real, width)}
#define exp EXP
% endif
% if "fmax" in inlined:
${exponential.larger(real, width)}
#define fmax LARGER
% endif
% endfor
${program.define(dict.fromkeys((V, 1)), False)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("normalize_cpu_rows")}
{
    const uint part = get_group_id(0) % parts;
    const uint first = part * span, end = min(count, first + span);
% if across and V > 1:
    const uint columns = kept${kept - 1}_size, blocks = (columns + ${V - 1}u) / ${V}u;
    const uint begin = get_group_id(0) / parts * rows_each, stop = min(begin + rows_each, rows / columns * blocks);
    for (uint block = begin; block < stop; ++block) {
        uint row = block / blocks * columns + block % blocks * ${V}u;
        const uint last = min(row + ${V}u, (block / blocks + 1) * columns);
        if (last - row == ${V}u) {
${one_row(V, V)}\
        } else for (; row < last; ++row) {
${one_row(1, 1)}\
        }
    }
% else:
    const uint begin = get_group_id(0) / parts * rows_each, stop = min(begin + rows_each, rows);
    for (uint row = begin; row < stop; ++row) {
${one_row(V, 1)}\
    }
% endif
}

## A row, or `row_width` neighbouring ones, by vectors of `width`.
<%def name="one_row(width, row_width)">\
<% lanes = vector(real, row_width) %>\
${program.begin_row("row")}\
${values.row_values(row_width)}\
% for phase in phases:
<% acc = f"acc{loop.index}_t" + ("" if row_width == 1 else str(row_width)) %>\
    {
    ${acc} total = ${acc}_identity();
% if launch == "map":
    for (uint k = 0; k < parts; ++k) {
        ${acc} other;
% for field, _ in phase.fields:
<% place = f"parts + k) * {len(phase.fields)}u + {loop.index}u" %>\
        other.${field} = ${lane_values([f"partial[((ulong)(row + {q}u) * {place}]" for q in range(row_width)])};
% endfor
        total = ${acc}_combine(total, other);
    }
% else:
    {
${loops.folded(phase, f"acc{loop.index}_t", width, row_width)}\
    }
% endif
% if launch == "fold":
% for field, _ in phase.fields:
% for q in range(row_width):
    partial[((ulong)(row + ${q}u) * parts + part) * ${len(phase.fields)}u + ${loop.parent.index}u]
        = total.${field}${component(row_width, q)};
% endfor
% endfor
% else:
    const ${acc} s = total;
    ${program.module.typed(phase.finish, real, width, row_width)}
% endif
% endfor
% if launch != "fold":
% if p.outputs:
${loops.over_row(None, width, row_width)}\
% endif
    if (part == 0) {
${values.row_stores(row_width)}\
    }
% endif
    ${"}" * len(phases)}
</%def>

<%def name="lane_values(texts)">\
${texts[0] if len(texts) == 1 else f"({vector(real, len(texts))})({', '.join(texts)})"}\
</%def>
