## The C side of portable_gpu.codegen.reductions.Reduction, for `w` adjacent lanes.  A lane folds its elements into a
## state, which is small; a state is lifted (converted) to an accumulator, which can be combined with others.
##   lane_tW, acc_tW                  state and accumulator
##   lane_tW_update(a, x.., step)     fold one more element into each lane
##   lane_tW_lift(a, first, stride)   the accumulators of the states; a lane's element of a step has the index
##                                    first + step * stride + lane_step * lane
## For a quick form (reductions.Quick) there are quick_lane_tW and so on, and
##   quick_acc_tW_trusted(a, count)   whether the quick accumulators of all lanes are accurate enough
##   acc_tW_adopt(a)                  the quick accumulators as accumulators of the whole reduction
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="loads" file="/reduce/_loads.cl.mako"/>
<%!
    from portable_gpu.codegen.operators import component
    from portable_gpu.codegen.reductions import value_names
%>

## All functions for vectors of the widths in `vectors` and for single lanes; accumulators fold by halves.
<%def name="define(r, vectors, aligned, lane_step)">
<%
    V = max(vectors)
    widths = [V >> k for k in range(V.bit_length())]
    loaded = sorted({1, *vectors})
%>
% for e in {e.name: e for e in (*r.inputs, r.result)}.values():
${element.scalar(e)}
% endfor
${r.preamble}
% if "nrm2_finish" in r.finish:
${nrm2_finish(r.acc.fields[0].ctype)}
% endif
% for fold in r.folds:
% for w in reversed(widths):
${accumulator.define(fold.acc, w)}
% endfor
% for w in widths[:-1]:
${accumulator.halve(fold.acc, w)}
% endfor
% for w in loaded:
${lanes(fold, w, lane_step)}
% endfor
% endfor
% for w in loaded:
% if r.quick:
${adopting(r.acc.type(w), r.quick, w)}
% endif
% for e in {e.name: e for e in r.inputs}.values():
${loads.define(e, w, aligned)}
% endfor
% endfor
</%def>

## Define the state and its functions.  lane_step: the distance of the elements of neighbouring lanes in the row.
<%def name="lanes(r, w, lane_step)">
<%
    state, acc, index = r.lane.type(w), r.acc.type(w), vector("long", w)
    values = [f"{vector(e.real, w)} {part}" for e, n in zip(r.inputs, r.names) for part in value_names(e, n)]
    step = f"CONVERT({index}, a.step)" if w > 1 else "a.step"
    of_lanes = ", ".join(str(j * lane_step) for j in range(w))  # the indices of the lanes, from that of lane 0 on
%>
${accumulator.define(r.lane, w)}
static inline ${state} ${state}_update(${state} a, ${", ".join(values)}, long step)
{
    ${r.update(w)}
    return a;
}
static inline ${acc} ${state}_lift(${state} a, long first, long stride)
{
    ${acc} r;
% if r.indexed:
    const ${index} INDEX = (${index})(first) + ${step} * (${index})(stride) + (${index})(${of_lanes});
% endif
    ${r.lift(w)}
    return r;
}
</%def>

## Define quick_acc_tW_trusted and acc_tW_adopt.
<%def name="adopting(acc, quick, w)">
<% tried = quick.fold.acc.type(w) %>
static inline bool ${tried}_trusted(${tried} a, long count)
{
    return ${" && ".join(quick.trusted(component(w, j)) for j in range(w))};
}
static inline ${acc} ${acc}_adopt(${tried} a)
{
    ${acc} r = ${acc}_identity();
    ${quick.adopt}
    return r;
}
</%def>

## Fold states into the first of them, in plain arithmetic, as a tree.
<%def name="join_states(r, w, states)">\
% for distance in [1 << k for k in range((len(states) - 1).bit_length())]:
% for i in range(0, len(states) - distance, 2 * distance):
${states[i]} = ${r.lane.type(w)}_combine(${states[i]}, ${states[i + distance]}); \
% endfor
% endfor
</%def>

## The norm from three sums of squares (Anderson 2017): of small elements times `up`, of medium ones, and of big
## elements times `down`, so that none overflows or underflows.
<%def name="nrm2_finish(T)">
static inline ${T} nrm2_finish(${T} small, ${T} mid, ${T} big, ${T} up, ${T} down)
{
    if (big > 0) return sqrt(mid != 0 ? big + (mid * down) * down : big) / down;
    if (!(small > 0)) return sqrt(mid);
    if (mid == 0) return sqrt(small) / up;
    const ${T} s = sqrt(small) / up, m = sqrt(mid), ratio = s < m ? s / m : m / s;
    return (s > m ? s : m) * sqrt(1 + ratio * ratio);
}
</%def>
