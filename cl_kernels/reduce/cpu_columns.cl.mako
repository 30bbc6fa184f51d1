## cpu_columns: fold x along a strided axis on a CPU, where neighbouring results lie next to each
## other.
##
##             COLUMNS columns | COLUMNS columns | ...     one work-item a block and part
##   part 0    row 0 to 3: read along, V columns at a time; row 4 to 7 ...
##   part 1    ...                                         accumulators stay in the L1 cache
##
## The last vector of the last block is moved back to end at the edge, so columns may be folded twice,
## with the same result.  With several parts the last group of a block to finish folds them in order.
##
## r: Reduction.  V: vector width.  COLUMNS: columns of a block.  U: rows at a time, at most r.block.
## kept, outer: numbers of axes.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>
<%namespace name="stream" file="/reduce/_cpu_column_stream.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%!
    HALVES = 8  # that one call rounds: it is no built-in that the compiler inlines
%>
<% acc = r.acc.type(V) %>
${states.define(r, (V,), False, 0)}
% if r.per_row:
${stream.define_centres()}
% endif
% if r.result.name == "f16":
${element.vector_store(r.result, HALVES, False)}
typedef float${HALVES} values_u __attribute__((aligned(4)));
% endif
% if r.of_vectors:
typedef ${vector(r.result.value, V)} result_u __attribute__((aligned(${r.result.itemsize})));
% endif
${fix_up.define()}
${fix_up.accumulators(r.acc)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduce_columns(
${part.arguments("uint parts", columns=True)})
{
% if split:
    const uint part = get_group_id(0) % parts;
% endif
    const long blocks = (columns + ${COLUMNS - 1}) / ${COLUMNS}, tile = get_group_id(0) / parts;
% if kept:
    const long row = tile / blocks;
% endif
    const long column = tile % blocks * ${COLUMNS};
    const int wide = columns - column < ${COLUMNS} ? columns - column : ${COLUMNS};
    // A block narrower than a vector begins before its first column.
    const int before = wide < ${V} ? ${V} - wide : 0, used = (wide + ${V - 1}) / ${V};
${part.bounds()}\
    ${acc} total[${-(-COLUMNS // V)}];
    for (int j = 0; j < used; j++) total[j] = ${acc}_identity();
% if r.per_row:
${stream.load_centres()}\
% endif
${fold_part()}\
    __global ${r.result.name}_t *result = out + (${part.module.place(kept, "out")} + column * out_column);
% if r.of_vectors:
    if (parts == 1 && out_column == 1 && before == 0) {
        for (int j = 0; j < used; j++) {
            const ${acc} a = total[j];
            *(__global result_u *)(result + ${stream.place()}) = ${r.of_vectors};
        }
        return;
    }
% endif
    // From vectors to one accumulator for each column.
${to_columns()}\
    if (parts > 1) {
${across_groups(r.acc.bytes // 4)}\
    }
    ${r.result.value} values[${COLUMNS}];
    for (int j = 0; j < wide; j++) {
        ${column()}
        ${r.totals}
        values[j] = ${r.value};
    }
${store()}\
}

## Store the values of the block: by vectors where the compiler makes none by itself.
<%def name="store()">\
    int stored = 0;
% if r.result.name == "f16":
    if (out_column == 1)
        for (; stored + ${HALVES} <= wide; stored += ${HALVES})
            f16_store${HALVES}(result + stored, *(const values_u *)(values + stored));
% endif
    for (; stored < wide; stored++) ${r.result.name}_store(result + stored * out_column, values[stored]);
</%def>

## Fold the part into `total`[0], [1] ...
<%def name="fold_part()">\
% if r.quick:
<% acc, tried = r.acc.type(V), r.quick.fold.acc.type(V) %>\
    ${tried} tried[${-(-COLUMNS // V)}];
    for (int j = 0; j < used; j++) tried[j] = ${tried}_identity();
${stream.fold(r.quick.fold, "tried")}\
    bool trusted = true;
    for (int j = 0; j < used; j++) trusted = trusted && ${tried}_trusted(tried[j], count);
    if (trusted) {
        for (int j = 0; j < used; j++) total[j] = ${acc}_adopt(tried[j]);
    } else {
${stream.fold(r, "total")}\
    }
% else:
${stream.fold(r, "total")}\
% endif
</%def>

## The vectors as an array for each field of the accumulators.
<%def name="to_columns()">\
% for field in r.acc.fields:
    ${field.ctype} ${field.name}[${COLUMNS + V}] __attribute__((aligned(${field.bytes})));
% endfor
    for (int j = 0; j < used; j++) {
        const int at = ${stream.place()};
% for field in r.acc.fields:
        const ${vector(field.ctype, V)} ${field.name}_v = total[j].${field.name};
        for (int k = 0; k < ${V}; k++) ${field.name}[at + k] = ((const ${field.ctype} *)&${field.name}_v)[k];
% endfor
    }
</%def>

## The accumulator of column j.
<%def name="column()">const acc_t a = {${", ".join(f"{field.name}[before + j]" for field in r.acc.fields)}};</%def>

## The last part of a block to finish folds all parts of each column in order; the others return.
<%def name="across_groups(words)">\
        volatile __global uint *mine = partial + (size_t)tile * ${COLUMNS} * parts * ${words};
        for (int j = 0; j < wide; j++) {
            ${column()}
            acc_t_publish(mine + (j * parts + part) * ${words}, a);
        }
        if (!comes_last(counters + tile, parts)) return;
        for (int j = 0; j < wide; j++) {
            acc_t a;
${fix_up.fold(r.acc, "a", f"mine + (j * parts + p) * {words}", 0, 1, "parts")}\
% for field in r.acc.fields:
            ${field.name}[before + j] = a.${field.name};
% endfor
        }
</%def>
