## The C side of portable_gpu.codegen.reductions.Reduction, for `w` lanes side by side:
##   lane_tW, acc_tW                  state and accumulator
##   lane_tW_update(a, x.., step)     one more element in each lane
##   lane_tW_lift(a, first, stride)   the accumulators; the element that a lane's step points to has
##                                    index first + step * stride + lane_step * lane
##   LOAD_NAME_W(parts, p)            declare the parts of W neighbouring elements at p
## Of a quick form (reductions.Quick), quick_lane_tW and so on, and
##   quick_acc_tW_trusted(a, count)   whether the quick accumulators of all lanes will do
##   acc_tW_adopt(a)                  the accumulators that they stand for
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%!
    from portable_gpu.codegen.operators import component
    from portable_gpu.codegen.reductions import value_names
%>

## Everything for `vectors` of so many lanes and for single lanes; accumulators fold down by halves.
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
${load(e, w, aligned)}
% endfor
% endfor
</%def>

<%def name="lanes(r, w, lane_step)">
<%
    state, acc, index = r.lane.type(w), r.acc.type(w), vector("long", w)
    values = [f"{vector(e.real, w)} {part}" for e, n in zip(r.inputs, "xy") for part in value_names(e, n)]
    step = f"CONVERT({index}, a.step)" if w > 1 else "a.step"
    iota = ", ".join(str(j * lane_step) for j in range(w))
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
    const ${index} INDEX = (${index})(first) + ${step} * (${index})(stride) + (${index})(${iota});
% endif
    ${r.lift(w)}
    return r;
}
</%def>

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

<%def name="load(e, w, aligned)">
% if w > 1:
${element.vector_load(e, w * e.components, aligned)}
% endif
% if not e.complex:
#define LOAD_${e.name}_${w}(v, p) const ${vector(e.real, w)} v = ${e.name}_load${w if w > 1 else ""}(p)
% elif w > 1:
#define LOAD_${e.name}_${w}(re, im, p) const ${vector(e.real, 2 * w)} re##_im = ${e.name}_load${2 * w}(p); const ${vector(e.real, w)} re = re##_im.even, im = re##_im.odd
% else:
#define LOAD_${e.name}_1(re, im, p) const ${e.value} re##_im = ${e.name}_load(p); const ${e.real} re = re##_im.x, im = re##_im.y
% endif
</%def>

<%def name="load_one(e, n, p)">LOAD_${e.name}_1(${", ".join(value_names(e, n))}, ${p});</%def>

## Declare w elements of every streamed input at index `at` of its row.
<%def name="load_all(r, streamed, w, at, unit)">\
% for e, n in zip(r.inputs, streamed):
LOAD_${e.name}_${w}(${", ".join(value_names(e, n))}, ${n}_row + (${at})${"" if unit else f" * {n}_stride"}); \
% endfor
</%def>

## Declare w neighbouring columns of every streamed input: block c of row `at`.
<%def name="load_block(r, streamed, w, at, c)">\
% for e, n in zip(r.inputs, streamed):
LOAD_${e.name}_${w}(${", ".join(value_names(e, n))}, ${n}_row + ((${at}) * ${n}_stride + ${c * w})); \
% endfor
</%def>

## Declare the second input of w results, one value each: parts y{c}_, at their columns.
<%def name="load_columns(r, c, w, p)">
<% e = r.inputs[1] %>
% for j in range(w):
    ${load_one(e, f"y{c}_{j}", f"{p} + (column + {c * w + j}) * y_column")}
% endfor
% for part in range(e.components):
    const ${vector(e.real, w)} ${value_names(e, f"y{c}_")[part]} = (${vector(e.real, w)})(${", ".join(value_names(e, f"y{c}_{j}")[part] for j in range(w))});
% endfor
</%def>

## The values that an update takes.  What is not streamed is one value for all lanes, or one
## vector named after the block `suffix` of columns.
<%def name="arguments(r, streamed, w, suffix='')">\
<%
    parts = []
    for e, n in zip(r.inputs, "xy"):
        names = value_names(e, n if n in streamed else n + suffix)
        wide = n in streamed or w == 1 or suffix
        parts += names if wide else [f"({vector(e.real, w)})({name})" for name in names]
%>\
${", ".join(parts)}\
</%def>

## Fold states into the first of them, in plain arithmetic, as a tree.
<%def name="join_states(r, w, states)">\
% for d in [1 << k for k in range((len(states) - 1).bit_length())]:
% for i in range(0, len(states) - d, 2 * d):
${states[i]} = ${r.lane.type(w)}_combine(${states[i]}, ${states[i + d]}); \
% endfor
% endfor
</%def>

## Three sums by magnitude to one norm (Anderson 2017), each scaled out of harm's way.
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
