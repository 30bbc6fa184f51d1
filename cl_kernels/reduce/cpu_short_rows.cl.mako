## cpu_short_rows: fold many short rows of x to one element of out each, on a CPU.  V rows are folded together: each
## lane of a vector has a row.  A group is one work-item and has rows_per_group rows.
##
##   row      | V elements | V elements | ... | 1 1 .. |     V vectors are loaded, one of each row, and
##   row + 1  |            |            |     |        |     transposed in registers: vector j then holds
##   ...                                                     column j of all rows.  The last columns
##   row+V-1  |            |            |     |        |     are loaded element by element.
##
## The last V rows end at the last row, so rows may be folded twice, with the same result.  While V rows
## are folded, the elements behind them are prefetched, because the hardware does not recognise V rows as a stream.
##
## r: Reduction (see _states).  V: rows folded together; there are at least V rows.  result_axes, outer: numbers of
## axes.
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>
<%namespace name="stream" file="/reduce/_cpu_short_row_stream.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% acc = r.acc.type(V) %>
${states.define(r, (V,), False, 0)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("reduce_rows")}
{
    const long first_row = get_group_id(0) * rows_per_group, last_row = min(rows, first_row + rows_per_group);
    for (long next = first_row; next < last_row; next += ${V}) {
        const long first = min(next, rows - ${V});
% for k in range(V):
        const long row${k} = first + ${k};
% for n in r.names:
        const long ${n}_place${k} = ${part.module.place(result_axes, n, f"row{k}")};
% endfor
% endfor
        ${acc} total = ${acc}_identity();
% if r.per_row:
        ${stream.load_elements(r.inputs[1], "y", "y_data", "")}
% endif
${fold_rows()}\
        for (int lane = 0; lane < ${V}; lane++) {
            const long row = first + lane;
            const acc_t a = {${", ".join(f"((const {field.ctype} *)&total.{field.name})[lane]"
                for field in r.acc.fields)}};
            ${r.totals}
            ${r.result.name}_store(out + (${part.module.place(result_axes, "out")}), ${r.value});
        }
    }
}

## Fold the rows into `total`.
<%def name="fold_rows()">\
% if r.quick:
<% tried = r.quick.fold.acc.type(V) %>\
        ${tried} tried = ${tried}_identity();
${stream.fold(r.quick.fold, "tried")}\
        if (${tried}_trusted(tried, count)) {
            total = ${acc}_adopt(tried);
        } else {
${stream.fold(r, "total")}\
        }
% else:
${stream.fold(r, "total")}\
% endif
</%def>
