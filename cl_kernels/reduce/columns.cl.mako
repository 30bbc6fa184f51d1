## columns: fold x along a strided axis on a GPU, where neighbouring results are adjacent in memory.  Work-group g has
## block g / parts of the columns, and part g % parts of the rows.
##
##             V*C columns | V*C columns | ...        V*C neighbours: one work-item
##   part 0    row 0, CY, 2CY ...                     CY work-items share the rows of a part
##   part 1    ...                                    and fold them through local memory
##
## A block is CX*V*C columns.  The last one is moved back to end at the edge, so columns may be folded
## twice, with the same result.  With several parts the last group of a block to finish folds them in
## order.  A row lane is the work-items of one y_lane; those of row lane 0 hold the results.  `tile` is the number of a
## block among those of all results.
##
## r: Reduction (see _states).  CX, CY: work-items of a group along columns and rows (row lanes).  V, C: vector width,
## and vectors of a work-item.  U: rows of a step.  aligned, result_axes, outer, split: as in rows.  In local memory:
## shared, a vector of accumulators for each work-item.
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="loads" file="/reduce/_loads.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>
<%namespace name="stream" file="/reduce/_column_stream.cl.mako"/>
<%namespace name="block" file="/reduce/_column_block.cl.mako"/>
<%namespace name="row_lanes" file="/reduce/_row_lanes.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% acc = r.acc.type(V) %>
${states.define(r, (V,), aligned, 0)}
% if split:
${fix_up.define()}
${fix_up.accumulators(r.acc)}
% endif

__kernel ${group.of_size(CX * CY)}
void ${kernel("reduce_columns")}
{
% if CY > 1:
    __local ${acc} shared[${CX * CY}];
% endif
% if split:
    const uint part = get_group_id(0) % parts;
% endif
    const uint x_lane = get_local_id(0) % ${CX}u, y_lane = get_local_id(0) / ${CX}u;
    const long blocks = (columns + ${CX * V * C - 1}) / ${CX * V * C}, tile = get_group_id(0) / parts;
% if result_axes:
    const long row = tile / blocks;
% endif
    const long unclamped = (tile % blocks * ${CX} + x_lane) * ${V * C};
    const long column = min(unclamped, columns - ${V * C});
${part.bounds()}\
% for c in range(C):
    ${acc} total${c} = ${acc}_identity();
% if r.per_row:
    ${loads.of_columns(r, c, V, f"y_data + {part.module.place(result_axes, 'y')}")}
% endif
% endfor
${fold_part()}\
    ${row_lanes.fold()}
    // Fold the vectors of all row lanes to one accumulator for each column.
% for field in r.acc.fields:
    ${field.ctype} ${field.name}[${V * C}] __attribute__((aligned(${field.bytes * V})));
% endfor
    ${block.to_columns()}
% if split:
    ${block.across_groups()}
% endif
    if (y_lane != 0 || unclamped >= columns) return;
    __global ${r.result.name}_t *result = out + (${part.module.place(result_axes, "out")} + column * out_column);
    ${block.each_column()} {
        ${block.column()}
        ${r.totals}
        ${r.result.name}_store(result + j * out_column, ${r.value});
    }
}

## Fold the part into `total`0, 1 ...  With a quick fold (r.quick) its result is taken if it is trusted for all columns;
## otherwise the part is folded again.
<%def name="fold_part()">\
% if r.quick:
<% acc, tried = r.acc.type(V), r.quick.fold.acc.type(V) %>\
% for c in range(C):
    ${tried} tried${c} = ${tried}_identity();
% endfor
${stream.fold(r.quick.fold, "tried")}
    if (${" && ".join(f"{tried}_trusted(tried{c}, count)" for c in range(C))}) {
% for c in range(C):
        total${c} = ${acc}_adopt(tried${c});
% endfor
    } else {
${stream.fold(r, "total")}
    }
% else:
${stream.fold(r, "total")}
% endif
</%def>
