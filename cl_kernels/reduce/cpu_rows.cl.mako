## cpu_rows: fold each row of x (or of x and y) to one element of out, on a CPU.
##
##   row | part 0                  | part 1 | ...     a row is divided into `parts`, with a work-item for each
##       | V*U | V*U ... | V ... | 1 |                a step has U vectors of V elements
##
## A row's vectors are folded into one accumulator for each lane of a vector; the lanes are folded at its end.  A group
## is one work-item: group g has rows_per_group rows from row g / parts * rows_per_group on, and part g % parts of them.
## The last group of a row to finish folds the parts in order.  Short rows are folded by cpu_short_rows.
##
## If the reduction has a quick form, a work-item folds its share by the quick form first, and again by the whole
## reduction if the result is not accurate enough.
##
## r: Reduction (see _states).  V, U: vector width and unrolling.  unit: inner stride is 1.  result_axes, outer: numbers
## of axes.  partial: the workspace, [row][part]; count: elements of a row.
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="loads" file="/reduce/_loads.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>
<%namespace name="stream" file="/reduce/_cpu_row_stream.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${states.define(r, (V,), False, 1)}
${fix_up.define()}
${fix_up.accumulators(r.acc)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("reduce_rows")}
{
    const uint part = get_group_id(0) % parts;
    const long first_row = get_group_id(0) / parts * rows_per_group, last_row = min(rows, first_row + rows_per_group);
${part.bounds()}\
    for (long row = first_row; row < last_row; row++) {
        acc_t total = acc_t_identity();
% if r.per_row:
        ${loads.scalar(r.inputs[1], "y", f"y_data + {part.module.place(result_axes, 'y')}")}
% endif
${fold_share()}\
        if (parts > 1) {
            volatile __global uint *mine = partial + (size_t)row * parts * ${r.acc.bytes // 4};
            acc_t_publish(mine + part * ${r.acc.bytes // 4}, total);
            if (!arrives_last(counters + row, parts)) continue;
${fix_up.fold(r.acc, "total", f"mine + p * {r.acc.bytes // 4}", 0, 1, "parts")}\
        }
        const acc_t a = total;
        ${r.totals}
        ${r.result.name}_store(out + (${part.module.place(result_axes, "out")}), ${r.value});
    }
}

## Fold the part into `total`.
<%def name="fold_share()">\
% if r.quick:
<% tried = r.quick.fold.acc.name %>\
        ${tried} tried = ${tried}_identity();
${stream.fold(r.quick.fold, "tried")}\
        if (${tried}_trusted(tried, count)) {
            total = acc_t_adopt(tried);
        } else {
${stream.fold(r, "total")}\
        }
% else:
${stream.fold(r, "total")}\
% endif
</%def>
