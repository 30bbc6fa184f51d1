## rows: fold each row of x (or of x and y) to one element of out, on a GPU (on a CPU: cpu_rows, cpu_short_rows).
##
##   row | part 0        | part 1 | ...      a row is divided into `parts`, with a work-group for each
##       | L V U | L V U | ... | tail |      in a step L work-items fold U vectors of V elements each
##
## The reduced axes are an inner one (n elements, loaded by V where it has unit stride) and the outer ones, flattened.
## If L < G, the group folds G / L rows at once.  If L == G, it folds a single row, or one part; the last group of a row
## to finish folds the parts in order.  Work-item 0 of each L holds the result.  Work-group g has the row g / parts and
## its part g % parts, or, without parts, rows_per_group rows.
##
## If the reduction has a quick form, a work-item folds its share by the quick form first, and again by
## the whole reduction if the result is not trusted.  The kernels of columns do the same.
##
## r: Reduction (see _states).  G: work-items of a group.  L: of a row.  S: of a sub-group.  V, U: vector width and
## unrolling.  aligned: whether the addresses of vectors are multiples of their size.  unit: inner stride is 1.  split:
## rows have parts.
## wave: local memory for one accumulator of each sub-group.  partial: the workspace, [row][part]; count: elements of a
## row.  result_axes, outer: numbers of axes.  peel: rows may be unaligned (see _row_stream).
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="loads" file="/reduce/_loads.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>
<%namespace name="stream" file="/reduce/_row_stream.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    # The width of vectors in the whole reduction.  After a quick form it is half of V, because the state of the whole
    # reduction is larger, and that must not need more registers than the quick form.
    whole_width = max(1, V // 2) if r.quick else V
    meet_in_local = L == G and G > S
%>
${states.define(r, (V, whole_width), aligned, 1)}
% if L == G:
${group.define(r.acc, G, S)}
% else:
${group.define_subgroup(r.acc, L)}
% endif
% if split:
${fix_up.define()}
${fix_up.accumulators(r.acc)}
% endif

__kernel ${group.of_size(G)} SUBGROUP_KERNEL
void ${kernel("reduce_rows")}
{
    SUBGROUP_SCRATCH(acc_t, scratch, ${G});
% if meet_in_local:
    __local acc_t wave[${G // S}];
% endif
% if split:
    __local uint is_last;
    const uint part = get_group_id(0) % parts;
    const long first_row = get_group_id(0) / parts, last_row = first_row + 1;
% else:
    const long first_row = get_group_id(0) * rows_per_group, last_row = min(rows, first_row + rows_per_group);
% endif
${part.bounds()}\
    const uint lane = get_local_id(0) % ${L}u;
    for (long base_row = first_row; base_row < last_row; base_row += ${G // L}) {
        const long row = base_row + get_local_id(0) / ${L}u;
        acc_t total = acc_t_identity();
        if (row < last_row) {
% if r.per_row:
            ${loads.scalar(r.inputs[1], "y", f"y_data + {part.module.place(result_axes, 'y')}")}
% endif
${fold_share(whole_width)}\
        }
        total = ${across_lanes("total")};
% if split:
${across_groups(r.acc.bytes // 4)}\
% elif meet_in_local:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
        if (lane == 0 && row < last_row) {
            const acc_t a = total;
            ${r.totals}
            ${r.result.name}_store(out + (${part.module.place(result_axes, "out")}), ${r.value});
        }
    }
}

## Fold this work-item's share of the row, or of the part, into `total`.
<%def name="fold_share(whole_width)">\
% if r.quick:
<% tried = r.quick.fold.acc.name %>\
            ${tried} tried = ${tried}_identity();
${stream.fold(r.quick.fold, "tried", V)}\
            if (${tried}_trusted(tried, count)) {
                total = acc_t_adopt(tried);
            } else {
${stream.fold(r, "total", whole_width)}\
            }
% else:
${stream.fold(r, "total", whole_width)}\
% endif
</%def>

## An expression: the fold of v over the lanes of a row.
<%def name="across_lanes(v)">\
% if L == G:
acc_t_group(${v}, SUBGROUP_SLOT(scratch), ${"LOCAL_ARRAY(wave)" if G > S else "0"})\
% else:
acc_t_subgroup${L}(${v}, SUBGROUP_SLOT(scratch))\
% endif
</%def>

## The last group of a row to finish folds its parts in order; the others return.
<%def name="across_groups(words)">\
${fix_up.arrive_by_one(r.acc, f"partial + ((size_t)row * parts + part) * {words}", "total", "counters + row",
    "parts", "lane == 0")}\
        if (!is_last) return;
${fix_up.fold(r.acc, "total", f"partial + ((size_t)row * parts + p) * {words}", "lane", f"{L}u", "parts")}\
        total = ${across_lanes("total")};
</%def>
