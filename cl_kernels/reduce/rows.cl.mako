## rows: fold each row of x (or of x and y) to one element of out.
##
##   row | part 0        | part 1 | ...      a row is cut into `parts`, one work-group each
##       | LVU LVU ... | tail |              L work-items take U vectors of V elements a step
##
## The reduced axes are an inner one (n elements, V at a time where it has unit stride) and the
## outer ones, flattened.  L < G: the group folds G / L short rows at once.  L == G: it folds one
## row at a time, or one part; the last group of a row to finish folds the parts in order.
## Work-item 0 of each L holds the result.
##
## Where the reduction has a quick form, a work-item folds its share by that first, and by the whole
## one where the outcome is not trusted; so do the kernels of columns.
##
## r: Reduction.  G: work-items of a group.  L: of a row.  S: of a sub-group.  V, U: vector width
## and unrolling.  aligned: 128-bit loads.  unit: inner stride is 1.  split: rows have parts.
## kept, outer: numbers of axes.  Strides count elements.
<%namespace name="lanes" file="/reduce/_lanes.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    inputs = dict(zip("xy", r.inputs))
    # A vector in halves after a quick form, whose state is smaller: that is to decide on the registers.
    second = max(1, V // 2) if r.quick and not target.is_cpu else V
    streamed = ["x"] if r.per_row else list(inputs)
    wave = "LOCAL_ARRAY(wave)" if G > S else "0"
    slot = "SUBGROUP_SLOT(scratch)"
    words = r.acc.bytes // 4
    strides = [f"long {n}_stride" for n in inputs]
    parameters = axes.parameters("kept", kept, [*inputs, "out"]) + axes.parameters("outer", outer, list(inputs)) + strides
%>
${lanes.define(r, (V, second), aligned, 1)}
% if L == G:
${group.define(r.acc, G, S)}
% else:
${group.define_subgroup(r.acc, L)}
% endif
% if split:
${group.fold_across_groups(r.acc)}
% endif

__kernel ${group.of_size(G)} SUBGROUP_KERNEL
void reduce_rows(
% for n, e in inputs.items():
    __global const ${e.name}_t *restrict ${n}_in, long ${n}_offset,
% endfor
    __global ${r.result.name}_t *restrict out, long out_offset,
% if split:
    volatile __global uint *restrict counters, volatile __global uint *restrict partial,
    uint inner_parts, uint parts,
% endif
    long rows, long rows_per_group, long outer_count, long outer_span, long n, long span, long count,
    ${", ".join(parameters)})
{
    SUBGROUP_SCRATCH(acc_t, scratch, ${G});
% if L == G and G > S:
    __local acc_t wave[${G // S}];
% endif
% if split:
    __local uint is_last;
    const uint part = get_group_id(0) % parts;
    const long first_row = get_group_id(0) / parts, last_row = first_row + 1;
    const long outer_begin = part / inner_parts * outer_span, begin = part % inner_parts * span;
% else:
    const long first_row = get_group_id(0) * rows_per_group, last_row = min(rows, first_row + rows_per_group);
    const long outer_begin = 0, begin = 0;
% endif
    const long outer_end = min(outer_count, outer_begin + outer_span), end = min(n, begin + span);
    const uint lane = get_local_id(0) % ${L}u;
    for (long base_row = first_row; base_row < last_row; base_row += ${G // L}) {
        const long row = base_row + get_local_id(0) / ${L}u;
        acc_t total = acc_t_identity();
        if (row < last_row) {
% if r.per_row:
            ${lanes.load_one(r.inputs[1], "y", "y_in + y_offset + " + axes.offset("kept", kept, "y", "row"))}
% endif
% if r.quick:
            ${r.quick.fold.acc.name} tried = ${r.quick.fold.acc.name}_identity();
${stream(r.quick.fold, "tried", V)}
            if (${r.quick.fold.acc.name}_trusted(tried, count)) {
                total = acc_t_adopt(tried);
            } else {
${stream(r, "total", second)}
            }
% else:
${stream(r, "total", second)}
% endif
        }
% if L == G:
        total = acc_t_group(total, ${slot}, ${wave});
% else:
        total = acc_t_subgroup${L}(total, ${slot});
% endif
% if split:
        if (lane == 0) {
            acc_t_publish(partial + ((size_t)row * parts + part) * ${words}, total);
            is_last = acc_t_last(counters + row, parts);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!is_last) return;
        total = acc_t_identity();
        for (uint p = lane; p < parts; p += ${L}u)
            total = acc_t_combine(total, acc_t_collect(partial + ((size_t)row * parts + p) * ${words}));
        total = acc_t_group(total, ${slot}, ${wave});
% elif L == G and G > S:
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
        if (lane == 0 && row < last_row) {
            const acc_t a = total;
            ${r.totals}
            ${r.result.name}_store(out + (out_offset + ${axes.offset("kept", kept, "out", "row")}), ${r.value});
        }
    }
}

## Fold this work-item's share of the row, or of the part, into `total`, at most `width` elements at a
## time.  The share does not depend on the width.
<%def name="stream(r, total, width)">
            for (long o = outer_begin; o < outer_end; ++o) {
% for n in streamed:
                __global const ${inputs[n].name}_t *${n}_row = ${n}_in + (${n}_offset + ${axes.offset("kept", kept, n, "row")} + ${axes.offset("outer", outer, n, "o")});
% endfor
                long i = begin;
% for v, u in dict.fromkeys([(V, U), (V, 1), (1, 1)]):
${fold(r, total, v, u, min(v, width))}
% endfor
            }
</%def>

## Fold what whole steps of u vectors of v elements, loaded w at a time, reach of the row from i on,
## and advance i.
<%def name="fold(r, total, v, u, w)">
<%
    acc, lane = r.acc.type(w), r.lane.type(w)
    step, pieces = L * v * u, v // w
    halves = [w >> k for k in range(w.bit_length() - 1)]
    gathers = r.block and target.is_cpu  # a GPU has other work meanwhile, and fewer registers
%>
                {
                    const long first = i + lane * ${v}L, steps = ${f"(end - first + {step - 1}) / {step}" if v * u == 1 else f"(end - i) / {step}"};
                    ${acc} sum${w} = ${acc}_identity();
% if gathers:
                    ${acc} part${w} = ${acc}_identity();
                    uint parts${w} = 0;
% endif
                    for (long done = 0; done < steps;) {
                        const long stop = min(steps, done + ${r.block // pieces or 1 << 30}L);
% for k in range(u):
                        ${lane} a${k} = ${lane}_identity();
% endfor
                        for (; done < stop; ++done) {
                            const long at = first + done * ${step}L;
% for k in range(u):
% for piece in range(pieces):
                            { ${lanes.load_all(r, streamed, w, f"at + {k * L * v + piece * w}", unit)} a${k} = ${lane}_update(a${k}, ${lanes.arguments(r, streamed, w)}, done); }
% endfor
% endfor
                        }
% if r.block:
                        ${lanes.join_states(r, w, [f"a{k}" for k in range(u)])}
% if not gathers:
                        sum${w} = ${acc}_combine(sum${w}, ${lane}_lift(a0, 0, 0));
% else:
                        part${w} = ${acc}_gather(part${w}, ${lane}_lift(a0, 0, 0));
                        if (++parts${w} % 1024 == 0) {
                            sum${w} = ${acc}_combine(sum${w}, part${w});
                            part${w} = ${acc}_identity();
                        }
% endif
% else:
% for k in range(u):
                        sum${w} = ${acc}_combine(sum${w}, ${lane}_lift(a${k}, o * n + first + ${k * L * v}, ${step}));
% endfor
% endif
                    }
% if gathers:
                    sum${w} = ${acc}_combine(sum${w}, part${w});
% endif
                    i += steps * ${step}L;
% for half in halves:
                    const ${r.acc.type(half // 2)} sum${half // 2} = ${r.acc.type(half)}_halve(sum${half});
% endfor
                    ${total} = ${r.acc.name}_combine(${total}, sum1);
                }
</%def>
