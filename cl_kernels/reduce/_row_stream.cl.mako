## A part of rows: the fold of a part of a row by L work-items, which take vectors in turn.  In scope there: lane, of L;
## begin, end: the part of the inner axis; outer_begin, outer_end: of the outer ones; n: elements of the inner axis.
##
##   row   | lane 0 | lane 1 | ... | lane L-1 | lane 0 | ...      V elements each, U steps in flight
##
## r: Reduction, whose functions TYPE_update, _lift and _combine are those of _states.
## A work-item folds steps of U vectors, then the remaining vectors one by one, then the remaining elements.
##
## peel: whether rows may be unaligned.  Vectors are aligned then; before them, each lane loads at most one of the
## elements before the first vector and one of those behind the last vector.
##
##   row   | begin .. | i: V  V  V ... | last .. | end
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="loads" file="/reduce/_loads.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>

## Fold the share of this work-item into `total`, at most `width` elements at a time; the share does not depend on it.
<%def name="fold(r, total, width)">\
            for (long o = outer_begin; o < outer_end; ++o) {
% for e, n in zip(r.streamed, r.names):
                ${part.inner_row(e, n)}
% endfor
% if peel:
${peeled(r, total, width)}
% else:
                long i = begin;
% for v, u in dict.fromkeys([(V, U), (V, 1), (1, 1)]):
${steps(r, total, v, u, min(v, width))}
% endfor
% endif
            }
</%def>

## Fold the share of an unaligned row: i becomes the first element at an address that is a multiple of a vector.
<%def name="peeled(r, total, width)">
<% (e,), (n,), state = r.streamed, r.names[:1], r.lane.type(1) %>
                long i = min(end, begin + (long)(-((size_t)(${n}_row + begin) / ${e.itemsize}) & ${V - 1}u));
                const long last = i + (end - i) / ${V} * ${V}, head = begin + lane, tail = last + lane;
                const bool before = head < i, behind = tail < end;
                LOAD_${e.name}_1(before_${n}, ${n}_row + (before ? head : begin));
                LOAD_${e.name}_1(behind_${n}, ${n}_row + (behind ? tail : begin));
% for u in dict.fromkeys([U, 1]):
${steps(r, total, V, u, width, "last")}
% endfor
                {
                    ${state} a = ${state}_identity();
                    if (before) { const ${e.real} ${n} = before_${n};
                        a = ${state}_update(a, ${loads.values(r, 1)}, 0); }
                    if (behind) { const ${e.real} ${n} = behind_${n};
                        a = ${state}_update(a, ${loads.values(r, 1)}, 1); }
                    ${total} = ${r.acc.name}_combine(${total}, ${state}_lift(a, o * n + head, last - begin));
                }
</%def>

## Fold the row from i on by whole steps of u vectors of v elements, loaded w at a time, and advance i.  end: C text.
## first: the lane's first element; a0, a1 ...: a state for each vector of a step, which folds at most r.block elements
## before it is lifted.
<%def name="steps(r, total, v, u, w, end='end')">
<%
    acc, state = r.acc.type(w), r.lane.type(w)
    step, pieces = L * v * u, v // w
    halves = [w >> k for k in range(w.bit_length() - 1)]
    reads_row = not set(r.names[: len(r.streamed)]) <= set(spread)  # else each input has one element for a whole row
    # The steps of a lane, and the elements of all lanes.  In single vectors lanes differ in their numbers of steps.
    number, advance = f"({end} - i) / {step}", f"steps * {step}"
    if u == 1 and L > 1:
        number, advance = f"max(0l, {end} - first + {step - v}) / {step}", f"({end} - i) / {v} * {v}"
    most = r.block // pieces or 1 << 30  # steps between two lifts; 0 stands for any number
%>
                {
                    const long first = i + lane * ${v}L, steps = ${number};
                    ${acc} sum${w} = ${acc}_identity();
                    for (long done = 0; done < steps;) {
                        const long stop = min(steps, done + ${most}L);
% for k in range(u):
                        ${state} a${k} = ${state}_identity();
% endfor
                        for (; done < stop; ++done) {
% if reads_row:
                            const long at = first + done * ${step}L;
% endif
% for k in range(u):
% for piece in range(pieces):
                            { ${loads.along_row(r, w, f"at + {k * L * v + piece * w}", unit)} a${k} =
                                ${state}_update(a${k}, ${loads.values(r, w)}, done); }
% endfor
% endfor
                        }
% if r.block:
                        ${states.join_states(r, w, [f"a{k}" for k in range(u)])}
                        sum${w} = ${acc}_combine(sum${w}, ${state}_lift(a0, 0, 0));
% else:
% for k in range(u):
                        sum${w} = ${acc}_combine(sum${w}, ${state}_lift(a${k}, o * n + first + ${k * L * v}, ${step}));
% endfor
% endif
                    }
                    i += ${advance}L;
% for half in halves:
                    const ${r.acc.type(half // 2)} sum${half // 2} = ${r.acc.type(half)}_halve(sum${half});
% endfor
                    ${total} = ${r.acc.name}_combine(${total}, sum1);
                }
</%def>
