## cpu_columns: fold x along a strided axis on a CPU, where neighbouring results lie next to each
## other.
##
##             COLUMNS columns | COLUMNS columns | ...     one work-item a block and part
##   part 0    row 0 to 3: read along, V columns at a time; row 4 to 7 ...
##   part 1    ...                                         accumulators stay in the L1 cache
##
## The last V columns of the last block are moved back to end at the edge, and so folded twice, to
## the same bits.  With several parts the last one of a block to finish folds them in order.
##
## r: Reduction.  V: vector width.  COLUMNS: of a block.  U: rows at a time, at most r.block.
## kept, outer, split: as in rows.
<%namespace name="lanes" file="/reduce/_lanes.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%!
    from portable_gpu.codegen.reductions import value_names
%>
<%
    inputs = dict(zip("xy", r.inputs))
    streamed = ["x"] if r.per_row else list(inputs)
    acc = r.acc.type(V)
    words = r.acc.bytes // 4
    vectors = -(-COLUMNS // V)
    centre = value_names(r.inputs[1], "y") if r.per_row else ()
    strides = [f"long {n}_stride" for n in inputs]
    columns = ["long columns", *(f"long {n}_column" for n in [*inputs, "out"])]
    parameters = axes.parameters("kept", kept, [*inputs, "out"]) + axes.parameters("outer", outer, list(inputs)) + columns + strides
%>
${lanes.define(r, (V,), False, 0)}
% if r.per_row:
typedef ${vector(r.inputs[1].real, V)} centre_u __attribute__((aligned(${r.inputs[1].itemsize // r.inputs[1].components})));
% endif
% if split:
${group.fold_across_groups(r.acc)}
% endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduce_columns(
% for n, e in inputs.items():
    __global const ${e.name}_t *restrict ${n}_in, long ${n}_offset,
% endfor
    __global ${r.result.name}_t *restrict out, long out_offset,
% if split:
    volatile __global uint *restrict counters, volatile __global uint *restrict partial,
    uint inner_parts,
% endif
    uint parts, long outer_count, long outer_span, long n, long span, long count,
    ${", ".join(parameters)})
{
    const uint part = get_group_id(0) % parts;
    const long blocks = (columns + ${COLUMNS - 1}) / ${COLUMNS}, tile = get_group_id(0) / parts;
    const long row = tile / blocks, column = tile % blocks * ${COLUMNS};
    const int wide = columns - column < ${COLUMNS} ? columns - column : ${COLUMNS};
    // A block narrower than a vector begins before its first column.
    const int before = wide < ${V} ? ${V} - wide : 0, used = (wide + ${V - 1}) / ${V};
% if split:
    const long outer_begin = part / inner_parts * outer_span, begin = part % inner_parts * span;
% else:
    const long outer_begin = 0, begin = 0;
% endif
    const long outer_end = min(outer_count, outer_begin + outer_span), end = min(n, begin + span);
    ${acc} total[${vectors}];
    for (int j = 0; j < used; j++) total[j] = ${acc}_identity();
% for name in centre:
    ${r.inputs[1].real} ${name}[${COLUMNS + V}];
% endfor
% if r.per_row:
    for (int j = 0; j < before + wide; j++) {
        ${lanes.load_one(r.inputs[1], "c", "y_in + y_offset + " + axes.offset("kept", kept, "y", "row") + " + (column - before + j) * y_column")}
% for name, value in zip(centre, value_names(r.inputs[1], "c")):
        ${name}[j] = ${value};
% endfor
    }
% endif
% if r.quick:
<% tried = r.quick.fold.acc.type(V) %>
    ${tried} tried[${vectors}];
    for (int j = 0; j < used; j++) tried[j] = ${tried}_identity();
${stream(r.quick.fold, "tried")}
    bool trusted = true;
    for (int j = 0; j < used; j++) trusted = trusted && ${tried}_trusted(tried[j], count);
    if (trusted) {
        for (int j = 0; j < used; j++) total[j] = ${acc}_adopt(tried[j]);
    } else {
${stream(r, "total")}
    }
% else:
${stream(r, "total")}
% endif
    // From vectors to one accumulator for each column.
% for field in r.acc.fields:
    ${field.ctype} ${field.name}[${COLUMNS + V}] __attribute__((aligned(${field.bytes})));
% endfor
    for (int j = 0; j < used; j++) {
        const int at = ${place()};
% for field in r.acc.fields:
        const ${vector(field.ctype, V)} ${field.name}_v = total[j].${field.name};
        for (int k = 0; k < ${V}; k++) ${field.name}[at + k] = ((const ${field.ctype} *)&${field.name}_v)[k];
% endfor
    }
% if split:
    volatile __global uint *mine = partial + (size_t)tile * ${COLUMNS} * parts * ${words};
    for (int j = 0; j < wide; j++) {
        const acc_t a = {${", ".join(f"{field.name}[before + j]" for field in r.acc.fields)}};
        acc_t_publish(mine + (j * parts + part) * ${words}, a);
    }
    if (!acc_t_last(counters + tile, parts)) return;
    for (int j = 0; j < wide; j++) {
        acc_t a = acc_t_identity();
        for (uint p = 0; p < parts; ++p)
            a = acc_t_combine(a, acc_t_collect(mine + (j * parts + p) * ${words}));
% for field in r.acc.fields:
        ${field.name}[before + j] = a.${field.name};
% endfor
    }
% endif
    __global ${r.result.name}_t *result = out + (out_offset + ${axes.offset("kept", kept, "out", "row")} + column * out_column);
    for (int j = 0; j < wide; j++) {
        const acc_t a = {${", ".join(f"{field.name}[before + j]" for field in r.acc.fields)}};
        ${r.totals}
        ${r.result.name}_store(result + j * out_column, ${r.value});
    }
}

<%def name="place()">(before || (j + 1) * ${V} <= wide ? j * ${V} : wide - ${V})</%def>

## Fold the part into `total`[0], [1] ...
<%def name="stream(r, total)">
    for (long o = outer_begin; o < outer_end; ++o) {
% for n in streamed:
        __global const ${inputs[n].name}_t *${n}_row = ${n}_in + (${n}_offset + ${axes.offset("kept", kept, n, "row")} + ${axes.offset("outer", outer, n, "o")}) + (column - before) * ${n}_column;
% endfor
        long i = begin;
        for (; i + ${U} <= end; i += ${U}) {
${fold(r, total, U)}
        }
        for (; i < end; i++) {
${fold(r, total, 1)}
        }
    }
</%def>

## Fold u rows from row i on into the accumulators, and fetch the u rows after them.
<%def name="fold(r, total, u)">
<% acc, state = r.acc.type(V), r.lane.type(V) %>
            for (int j = 0; j < used; j++) {
                const int at = ${place()};
                ${state} a = ${state}_identity();
% for k in range(u):
% for e, n in zip(r.inputs, streamed):
                PREFETCH(${n}_row + ((i + ${k + u}) * ${n}_stride + at));
% endfor
                {
% for e, n in zip(r.inputs, streamed):
                    LOAD_${e.name}_${V}(${", ".join(value_names(e, n))}, ${n}_row + ((i + ${k}) * ${n}_stride + at));
% endfor
% for name in centre:
                    const ${vector(r.inputs[1].real, V)} ${name}_v = *(const centre_u *)(${name} + at);
% endfor
                    a = ${state}_update(a, ${", ".join([*(p for e, n in zip(r.inputs, streamed) for p in value_names(e, n)), *(f"{name}_v" for name in centre)])}, ${k});
                }
% endfor
                ${total}[j] = ${acc}_combine(${total}[j], ${state}_lift(a, o * n + i, 1));
            }
</%def>
