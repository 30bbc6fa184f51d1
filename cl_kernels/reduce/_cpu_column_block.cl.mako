## A part of cpu_columns: the results of a block of columns, from its vectors total[0], [1] ...  In scope there:
## block_columns, block_vectors: the columns and vectors of the block; before: how many columns a block narrower than a
## vector begins early; tile, part, parts: see cpu_columns; r: the Reduction, whose accumulator acc_t has `fields`.
##
##   to_columns()      declare arrays of the accumulators' fields, with an element for each column
##   across_groups()   fold the parts of several groups
##   store()           store values[0], [1] ...
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="stream" file="/reduce/_cpu_column_stream.cl.mako"/>
<%!
    HALVES = 8  # float16 values that one call rounds and stores: the compiler does not inline the built-in function
%>
<%def name="define()">\
% if r.result.name == "f16":
${element.vector_store(r.result, HALVES, False)}
typedef float${HALVES} values_u __attribute__((aligned(4)));
% endif
</%def>

## Store the values of the block, as vectors if the compiler would not use vectors by itself.
<%def name="store()">\
    int stored = 0;
% if r.result.name == "f16":
    if (out_column == 1)
        for (; stored + ${HALVES} <= block_columns; stored += ${HALVES})
            f16_store${HALVES}(result + stored, *(const values_u *)(values + stored));
% endif
    for (; stored < block_columns; stored++) ${r.result.name}_store(result + stored * out_column, values[stored]);
</%def>

## Declare an array for each field of the accumulators, and copy the vectors to it.  Column j has the element before +
## j.
<%def name="to_columns()">\
% for field in r.acc.fields:
    ${field.ctype} ${field.name}[${COLUMNS + V}] __attribute__((aligned(${field.bytes})));
% endfor
    for (int j = 0; j < block_vectors; j++) {
        const int at = ${stream.place()};
% for field in r.acc.fields:
        __builtin_memcpy(${field.name} + at, &total[j].${field.name}, sizeof(total[j].${field.name}));
% endfor
    }
</%def>

## The accumulator of column j.
<%def name="column()">const acc_t a = {${", ".join(f"{field.name}[before + j]" for field in r.acc.fields)}};</%def>

## The last part of a block to finish folds all parts of each column in order; the others return.  words: 32-bit words
## of an accumulator.  partial: [tile][column j][part], COLUMNS columns a tile.
<%def name="across_groups(words)">\
        volatile __global uint *own_partial = partial + (size_t)tile * ${COLUMNS} * parts * ${words};
        for (int j = 0; j < block_columns; j++) {
            ${column()}
            acc_t_publish(own_partial + (j * parts + part) * ${words}, a);
        }
        if (!arrives_last(counters + tile, parts)) return;
        for (int j = 0; j < block_columns; j++) {
            acc_t a;
${fix_up.fold(r.acc, "a", f"own_partial + (j * parts + p) * {words}", 0, 1, "parts")}\
% for field in r.acc.fields:
            ${field.name}[before + j] = a.${field.name};
% endfor
        }
</%def>
