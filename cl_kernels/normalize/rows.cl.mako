## rows: statistics over each row (the phases of a RowProgram), then a map over the row, on a GPU (on a CPU: cpu_rows).
## Work-group g has G / L rows from row g / parts * (G / L) on.
##
##   along    | row 0: L lanes | row 1: L lanes | ...     lanes of a row side by side, V elements each
##   across   | row 0 1 2 ... G/L-1 |                     lanes of a row G / L apart: rows are neighbours
##            | row 0 1 2 ... G/L-1 |  ...
##
## A work-item keeps the E vectors of its share in registers, and each phase folds them.  If E is 0, it reads
## the row for the fold, U vectors at a time, and again for the map.  With launch "fold", `parts` groups share each
## row, and each group stores the accumulators of its part; with "map", each group combines all parts of the row in
## order, and maps its part.  All lanes of a row have its values; the first lane stores results with one value for a
## row.  If the program has sums over rows, a group takes one row (or rows side by side) after the other, keeps the sums
## and the inputs `steady`, which are the same for all rows, in registers, and stores the sums at the end.
##
## G: work-items of a group.  L: of a row.  S: of a sub-group.  phases: those that this kernel computes.
## own: the number of the work-item's row in the group.  number: that of all rows, and may be beyond the last.  slot:
## the place of the sums over rows.  span: elements of a part.  partial: the workspace, [row][part][field of the
## accumulators].  s: the accumulator of a row.  Others: see _program.
<%namespace name="program" file="/normalize/_program.cl.mako"/>
<%namespace name="values" file="/normalize/_row_values.cl.mako"/>
<%namespace name="share" file="/normalize/_share.cl.mako"/>
<%namespace name="lanes" file="/normalize/_lanes.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    own_rows = G // L
%>
${program.define((V,), True)}
${lanes.define()}

__kernel SUBGROUP_KERNEL ${group.of_size(G)}
void ${kernel("normalize_rows")}
{
${lanes.local()}\
    const uint lid = get_local_id(0), part = get_group_id(0) % parts;
    const uint lane = ${f"lid / {own_rows}u" if across else f"lid % {L}u"};
    const uint own = ${f"lid % {own_rows}u" if across else f"lid / {L}u"};
    const uint first = part * span, end = min(count, first + span);
    (void)first, (void)end;  // a launch that only finishes rows reads no elements
% for e in range(E):
    const uint j${e} = first + (${e * L}u + lane) * ${V}u;
% endfor
% if p.sums:
    const uint slot = get_group_id(0) * ${own_rows}u + own;
${share.begin_sums()}\
    for (uint number = slot; number - own < rows; number += get_num_groups(0) * ${own_rows}u) {
% else:
    const uint number = get_group_id(0) / parts * ${own_rows}u + own;
% endif
    const uint row = min(number, rows - 1u);
${program.begin_row("row")}\
${values.row_values(1)}\
${share.load([name for name in p.early if name not in steady])}\
% if p.sums:
    barrier(CLK_LOCAL_MEM_FENCE);  // all lanes have read the totals of the previous row
% endif
% for phase in phases:
    {
    acc${loop.index}_t total = acc${loop.index}_t_identity();
% if launch == "map":
    for (uint k = 0; k < parts; ++k) {
        acc${loop.index}_t other;
% for field, _ in phase.fields:
        other.${field} = partial[((ulong)row * parts + k) * ${len(phase.fields)}u + ${loop.index}u];
% endfor
        total = acc${loop.index}_t_combine(total, other);
    }
% else:
    {
${share.folded(phase, f"acc{loop.index}_t")}\
    }
    total = ${lanes.fold("total", loop.index)};
% endif
% if launch == "fold":
    if (lane == 0 && number < rows) {
% for field, _ in phase.fields:
        partial[((ulong)row * parts + part) * ${len(phase.fields)}u + ${loop.index}u] = total.${field};
% endfor
    }
% else:
    const acc${loop.index}_t s = total;
    ${program.module.typed(phase.finish, real, V, 1)}
% endif
% endfor
% if launch != "fold":
% if p.outputs:
${share.mapped()}\
% endif
    if (lane == 0 && part == 0 && number < rows) {
${values.row_stores(1)}\
    }
% endif
    ${"}" * len(phases)}
% if p.sums:
    }
${share.store_sums()}\
% endif
}
