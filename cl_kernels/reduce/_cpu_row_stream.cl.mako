## The fold of a part of a row by cpu_rows: first whole steps of U vectors, then the remaining vectors, and then the
## remaining elements.
##
##   sum<V>   an accumulator for each lane of the vectors, which are folded by halves at the end
##   sum1     the accumulator of the remaining elements
##
## In scope there: begin, end: the part of the inner axis; outer_begin, outer_end: of the outer ones; n: elements of the
## inner axis (_part).  Between two lifts (conversions of states to accumulators) there are at most r.block steps;
## `gather` is accurate for 1024 folds in succession, after which `combine` folds the sum into the total.
##
## r: Reduction, whose functions TYPE_update, _lift, _gather, _combine and _halve are those of _states.  V, U, unit,
## result_axes, outer: as in cpu_rows.
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="loads" file="/reduce/_loads.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>

## Fold the part into `total`.
<%def name="fold(r, total)">\
<% widths = [V >> k for k in range(V.bit_length())] %>\
        {
% for w in dict.fromkeys([V, 1]):
            ${r.acc.type(w)} sum${w} = ${r.acc.type(w)}_identity();
% endfor
            for (long o = outer_begin; o < outer_end; ++o) {
% for e, n in zip(r.streamed, r.names):
                ${part.inner_row(e, n)}
% endfor
                long i = begin;
% for w, u in dict.fromkeys([(V, U), (V, 1), (1, 1)]):
${steps(r, w, u)}\
% endfor
            }
% for w in widths[:-1]:
            const ${r.acc.type(w // 2)} half${w // 2} = ${r.acc.type(w)}_halve(${"sum" if w == V else "half"}${w});
% endfor
            ${total} = ${f"{r.acc.name}_combine(half1, sum1)" if V > 1 else "sum1"};
        }
</%def>

## Fold the row from i on by whole steps of u vectors of w elements, and advance i.  a0, a1 ...: a state for each vector
## of a step.
<%def name="steps(r, w, u)">\
<%
acc, state = r.acc.type(w), r.lane.type(w)
most = r.block or 1 << 30  # steps between two lifts; 0 stands for any number
%>\
                if (i + ${w * u} <= end) {
                    const long steps = (end - i) / ${w * u};
% if r.block:
                    ${acc} gathered = ${acc}_identity();
                    uint lifts = 0;
% endif
                    for (long done = 0; done < steps;) {
                        const long stop = min(steps, done + ${most}L);
% for k in range(u):
                        ${state} a${k} = ${state}_identity();
% endfor
                        for (; done < stop; ++done) {
                            const long at = i + done * ${w * u};
% for k in range(u):
                            { ${loads.along_row(r, w, f"at + {k * w}", unit)} a${k} = ${state}_update(a${k},
                                ${loads.values(r, w)}, done); }
% endfor
                        }
% if r.block:
                        ${states.join_states(r, w, [f"a{k}" for k in range(u)])}
                        gathered = ${acc}_gather(gathered, ${state}_lift(a0, 0, 0));
                        if (++lifts % 1024 == 0) {
                            sum${w} = ${acc}_combine(sum${w}, gathered);
                            gathered = ${acc}_identity();
                        }
% else:
% for k in range(u):
                        sum${w} = ${acc}_combine(sum${w}, ${state}_lift(a${k}, o * n + i + ${k * w}, ${w * u}));
% endfor
% endif
                    }
% if r.block:
                    sum${w} = ${acc}_combine(sum${w}, gathered);
% endif
                    i += steps * ${w * u};
                }
</%def>
