## columns: fold x along a strided axis, where neighbouring results lie next to each other.
##
##             V*C columns | V*C columns | ...        V*C neighbours: one work-item
##   part 0    row 0, CY, 2CY ...                     CY work-items share the rows of a part
##   part 1    ...                                    and fold them through local memory
##
## A block is CX*V*C columns; the last one is moved back to end at the edge, so columns may be
## folded twice, to the same bits.  With several parts the last group of a block to finish folds
## them in order.  Work-items of row lane 0 hold the results.
##
## r: Reduction.  CX, CY: work-items of a group along columns and rows.  V, C: vector width, and
## vectors of a work-item.  U: rows at a time.  aligned, kept, outer, split: as in rows.
<%namespace name="lanes" file="/reduce/_lanes.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    inputs = dict(zip("xy", r.inputs))
    streamed = ["x"] if r.per_row else list(inputs)
    acc = r.acc.type(V)
    words = r.acc.bytes // 4
    strides = [f"long {n}_stride" for n in inputs]
    columns = ["long columns", *(f"long {n}_column" for n in [*inputs, "out"])]
    parameters = axes.parameters("kept", kept, [*inputs, "out"]) + axes.parameters("outer", outer, list(inputs)) + columns + strides
%>
${lanes.define(r, (V,), aligned, 0)}
% if split:
${group.fold_across_groups(r.acc)}
% endif

__kernel ${group.of_size(CX * CY)}
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
% if CY > 1:
    __local ${acc} shared[${CX * CY}];
% endif
    const uint part = get_group_id(0) % parts, x_lane = get_local_id(0) % ${CX}u, y_lane = get_local_id(0) / ${CX}u;
    const long blocks = (columns + ${CX * V * C - 1}) / ${CX * V * C}, tile = get_group_id(0) / parts;
    const long row = tile / blocks, wanted = (tile % blocks * ${CX} + x_lane) * ${V * C};
    const long column = min(wanted, columns - ${V * C});
% if split:
    const long outer_begin = part / inner_parts * outer_span, begin = part % inner_parts * span;
% else:
    const long outer_begin = 0, begin = 0;
% endif
    const long outer_end = min(outer_count, outer_begin + outer_span), end = min(n, begin + span);
% for c in range(C):
    ${acc} total${c} = ${acc}_identity();
% if r.per_row:
    ${lanes.load_columns(r, c, V, "y_in + y_offset + " + axes.offset("kept", kept, "y", "row"))}
% endif
% endfor
% if r.quick:
<% tried = r.quick.fold.acc.type(V) %>
% for c in range(C):
    ${tried} tried${c} = ${tried}_identity();
% endfor
${stream(r.quick.fold, "tried")}
    if (${" && ".join(f"{tried}_trusted(tried{c}, count)" for c in range(C))}) {
% for c in range(C):
        total${c} = ${acc}_adopt(tried${c});
% endfor
    } else {
${stream(r, "total")}
    }
% else:
${stream(r, "total")}
% endif
    ${fold_row_lanes(acc)}
    // From vectors to one accumulator for each column.
% for field in r.acc.fields:
    ${field.ctype} ${field.name}[${V * C}] __attribute__((aligned(${field.bytes * V})));
% endfor
    ${to_columns()}
% if split:
    ${across_groups(acc, words)}
% endif
    if (y_lane != 0 || wanted >= columns) return;
    __global ${r.result.name}_t *result = out + (out_offset + ${axes.offset("kept", kept, "out", "row")} + column * out_column);
    ${each_column()} {
        const acc_t a = {${", ".join(f"{field.name}[j]" for field in r.acc.fields)}};
        ${r.totals}
        ${r.result.name}_store(result + j * out_column, ${r.value});
    }
}

## Fold the part into `total`0, 1 ...
<%def name="stream(r, total)">
    for (long o = outer_begin; o < outer_end; ++o) {
% for n in streamed:
        __global const ${inputs[n].name}_t *${n}_row = ${n}_in + (${n}_offset + ${axes.offset("kept", kept, n, "row")} + ${axes.offset("outer", outer, n, "o")}) + column * ${n}_column;
% endfor
% for u in dict.fromkeys((U, 1)):
${fold(r, total, u)}
% endfor
    }
</%def>

## Fold rows of the part, u at a time for each of the CY row lanes, and advance i.
<%def name="fold(r, total, u)">
<% step, acc, state = CY * u, r.acc.type(V), r.lane.type(V) %>
        {
            const long from = ${"begin" if u == U else f"begin + (end - begin) / {CY * U} * {CY * U}"}, first = from + y_lane;
            const long steps = ${f"(end - from) / {step}" if u > 1 else f"(end - first + {step - 1}) / {step}"};
            for (long done = 0; done < steps;) {
                const long stop = min(steps, done + ${r.block or 1 << 30}L);
% for k in range(u * C):
                ${state} a${k} = ${state}_identity();
% endfor
                for (; done < stop; ++done) {
% for k in range(u):
% for c in range(C):
                    { ${lanes.load_block(r, streamed, V, f"first + done * {step}L + {k * CY}", c)} a${k * C + c} = ${state}_update(a${k * C + c}, ${lanes.arguments(r, streamed, V, f"{c}_")}, done); }
% endfor
% endfor
                }
% for c in range(C):
% if r.block:
                ${lanes.join_states(r, V, [f"a{k * C + c}" for k in range(u)])}
                ${total}${c} = ${acc}_combine(${total}${c}, ${state}_lift(a${c}, 0, 0));
% else:
% for k in range(u):
                ${total}${c} = ${acc}_combine(${total}${c}, ${state}_lift(a${k * C + c}, o * n + first + ${k * CY}, ${step}));
% endfor
% endif
% endfor
            }
        }
</%def>

## Fold the vectors of all row lanes into those of row lane 0, up to 8 to 1 at a time: a tree of
## pairs has three times the barriers.
<%def name="fold_row_lanes(acc)">
<% lanes_left = CY %>
% while lanes_left > 1:
% for c in range(C):
    ${exchange(acc, c, max(1, lanes_left // 8), lanes_left)}
% endfor
<% lanes_left = max(1, lanes_left // 8) %>
% endwhile
</%def>

<%def name="to_columns()">
% for field in r.acc.fields:
% for c in range(C):
    *(${vector(field.ctype, V)} *)(${field.name} + ${c * V}) = total${c}.${field.name};
% endfor
% endfor
</%def>

## Row lanes below d fold in the values of row lanes + d, + 2 d ... below `count`.
<%def name="exchange(acc, c, d, count)">
% for field in r.acc.fields:
    shared[get_local_id(0)].${field.name} = total${c}.${field.name};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint other = y_lane + ${d}; y_lane < ${d} && other < ${count}; other += ${d})
        total${c} = ${acc}_combine(total${c}, shared[other * ${CX} + x_lane]);
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>

## Over the columns of a work-item.  Unrolled, their arrays are registers; a CPU has them in cache.
<%def name="each_column()">\
% if not target.is_cpu:
_Pragma("unroll") \
% endif
for (int j = 0; j < ${V * C}; ++j)\
</%def>

## The last group of a block to finish folds the parts of each column: each row lane some of them,
## in order, and then the row lanes theirs.
<%def name="across_groups(acc, words)">
    __local uint is_last;
    // Part by part, and within it all columns of the block side by side.
    volatile __global uint *mine = partial + ((size_t)tile * parts * ${CX} + x_lane) * ${V * C * words};
    if (y_lane == 0) {
        ${each_column()} {
            const acc_t a = {${", ".join(f"{field.name}[j]" for field in r.acc.fields)}};
            acc_t_publish(mine + ((size_t)part * ${CX * V * C} + j) * ${words}, a);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0) is_last = acc_t_last(counters + tile, parts);
    barrier(CLK_LOCAL_MEM_FENCE);
    // The others go along, with nothing to fold: barriers in a branch cost compilers dearly.
    const uint wanted_parts = is_last ? parts : 0;
    ${each_column()} {
        acc_t a = acc_t_identity();
        for (uint p = y_lane; p < wanted_parts; p += ${CY})
            a = acc_t_combine(a, acc_t_collect(mine + ((size_t)p * ${CX * V * C} + j) * ${words}));
% for field in r.acc.fields:
        ${field.name}[j] = a.${field.name};
% endfor
    }
% if CY > 1:
% for c in range(C):
% for field in r.acc.fields:
    total${c}.${field.name} = *(const ${vector(field.ctype, V)} *)(${field.name} + ${c * V});
% endfor
% endfor
    ${fold_row_lanes(acc)}
    ${to_columns()}
% endif
    if (!is_last) return;
</%def>
