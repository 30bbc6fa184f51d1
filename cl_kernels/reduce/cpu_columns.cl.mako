## cpu_columns: fold x along a strided axis on a CPU, where neighbouring results are adjacent in memory.  A group is one
## work-item; group g has block g / parts of the columns, and part g % parts of the rows.
##
##             COLUMNS columns | COLUMNS columns | ...
##   part 0    rows 0 to U - 1, by vectors of V columns; then the next U rows, and so on
##   part 1    ...                                         accumulators stay in the L1 cache
##
## The last vector of the last block is moved back to end at the edge, so columns may be folded twice,
## with the same result.  With several parts the last group of a block to finish folds them in order.
## `tile` is the number of a block among those of all results.
##
## r: Reduction (see _states).  V: vector width.  COLUMNS: columns of a block.  U: rows of a step, at most r.block.
## result_axes, outer: numbers of axes.
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>
<%namespace name="stream" file="/reduce/_cpu_column_stream.cl.mako"/>
<%namespace name="block" file="/reduce/_cpu_column_block.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% acc = r.acc.type(V) %>
${states.define(r, (V,), False, 0)}
% if r.per_row:
${stream.define_centres()}
% endif
${block.define()}\
% if r.of_vectors:
typedef ${vector(r.result.value, V)} result_u __attribute__((aligned(${r.result.itemsize})));
% endif
${fix_up.define()}
${fix_up.accumulators(r.acc)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("reduce_columns")}
{
% if split:
    const uint part = get_group_id(0) % parts;
% endif
    const long blocks = (columns + ${COLUMNS - 1}) / ${COLUMNS}, tile = get_group_id(0) / parts;
% if result_axes:
    const long row = tile / blocks;
% endif
    const long column = tile % blocks * ${COLUMNS};
    const int block_columns = columns - column < ${COLUMNS} ? columns - column : ${COLUMNS};
    // A block narrower than a vector begins `before` columns before its first column.
    const int before = block_columns < ${V} ? ${V} - block_columns : 0,
        block_vectors = (block_columns + ${V - 1}) / ${V};
${part.bounds()}\
    ${acc} total[${-(-COLUMNS // V)}];
    for (int j = 0; j < block_vectors; j++) total[j] = ${acc}_identity();
% if r.per_row:
${stream.load_centres()}\
% endif
${fold_part()}\
    __global ${r.result.name}_t *result = out + (${part.module.place(result_axes, "out")} + column * out_column);
% if r.of_vectors:
    if (parts == 1 && out_column == 1 && before == 0) {
        for (int j = 0; j < block_vectors; j++) {
            const ${acc} a = total[j];
            *(__global result_u *)(result + ${stream.place()}) = ${r.of_vectors};
        }
        return;
    }
% endif
    // Convert the vectors to one accumulator for each column.
${block.to_columns()}\
    if (parts > 1) {
${block.across_groups(r.acc.bytes // 4)}\
    }
    ${r.result.value} values[${COLUMNS}];
    for (int j = 0; j < block_columns; j++) {
        ${block.column()}
        ${r.totals}
        values[j] = ${r.value};
    }
${block.store()}\
}

## Fold the part into `total`[0], [1] ...
<%def name="fold_part()">\
% if r.quick:
<% acc, tried = r.acc.type(V), r.quick.fold.acc.type(V) %>\
    ${tried} tried[${-(-COLUMNS // V)}];
    for (int j = 0; j < block_vectors; j++) tried[j] = ${tried}_identity();
${stream.fold(r.quick.fold, "tried")}\
    bool trusted = true;
    for (int j = 0; j < block_vectors; j++) trusted = trusted && ${tried}_trusted(tried[j], count);
    if (trusted) {
        for (int j = 0; j < block_vectors; j++) total[j] = ${acc}_adopt(tried[j]);
    } else {
${stream.fold(r, "total")}\
    }
% else:
${stream.fold(r, "total")}\
% endif
</%def>
