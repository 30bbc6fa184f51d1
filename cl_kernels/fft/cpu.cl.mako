## fft on a CPU: a work-item computes one Fourier transform (two real ones, if planes is 2) in each lane of a vector.
##
##      source ──load──▶ scratch: n rows of (re, im) ──stages, in place──▶ ──store──▶ target
##
## A work-item has a part of the scratch memory, and computes `run` strips of lanes one after the other.  With two
## passes in one launch it computes whole transforms: first all strips of the first pass, with results in its part of
## `between`, and then all strips of the second pass.
##
## launches         the passes of each launch; a pass has source and result (ops.fft.passes.RenderedOperand: form,
##                  layout of lanes), planes (transforms in a lane), twisted (whether rows of the result are multiplied
##                  by roots of one: Cooley and Tukey's twiddles, before the second pass of a long transform); the last
##                  result may be multiplied by an array t, number by number (result.times)
## policy           CpuFftPolicy; V: lanes of a vector          radices  of the stages, all passes together
## rank             batch axes in addition to the lanes
## Arguments of a side, x or y: see PassOperand there.  Of pass k: n{k} rows, lanes{k}; order{k}: the radices of its
## stages, then, from ORDER_AT on, the row of each result; roots{k}: see _stages; fine{k}, coarse{k}: see _cpu_fetch.
## size: vectors of a work-item's scratch memory s.  A strip has the V * planes lanes from `lane` on, `live` of which
## exist.  x0, y0, t0: the arrays at the strip's batch item; u, v: `between` as a source and as a target.
##
## Two real transforms are computed as one complex transform: their numbers are re and im, and row k of both results is
## computed from the rows k and n - k.  For the inverse direction (flip), re and im are exchanged on both sides.
<%namespace name="butterflies" file="/fft/_butterflies.cl.mako"/>
<%namespace name="stages" file="/fft/_stages.cl.mako"/>
<%namespace name="load" file="/fft/_cpu_load.cl.mako"/>
<%namespace name="store" file="/fft/_cpu_store.cl.mako"/>
<%namespace name="vectors" file="/fft/_cpu_vectors.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
V, suffix = policy.vector, "" if real.needs_fp64 else "f"
all_passes = [pass_ for passes in launches for pass_ in passes]
loads = list(dict.fromkeys((pass_.source, pass_.planes) for pass_ in all_passes))
stores = list(dict.fromkeys((pass_.result, pass_.planes, pass_.twisted) for pass_ in all_passes))
batch = axes.digits("batch", rank, "batch_item")
%>
${vectors.types(real, V)}
${butterflies.define(radices, suffix)}
${stages.define(radices)}
${vectors.transpose(real, V)}
% for k, (source, planes) in enumerate(loads):
${load.define(source, V, planes, k)}
% endfor
% for k, (result, planes, twisted) in enumerate(stores):
${store.define(result, V, planes, twisted, k)}
% endfor

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("fft")}
{
    __global vec_t *s = (__global vec_t *)(scratch + get_global_id(0) * size);
    const long first = get_global_id(0) * run;
% for number, passes in enumerate(launches):
<%
two_passes = len(passes) == 2
outer = {"x": passes[0].source, "y": passes[-1].result}
names = [("x", "v"), ("u", "y")] if two_passes else [("x", "y")]  # source and target of each pass
times = passes[-1].result.times
%>
% if len(launches) > 1:
    if (number == ${number}) {
% endif
% if two_passes:
    __global const real_t *u = between + get_global_id(0) * between_size;
    __global real_t *v = between + get_global_id(0) * between_size;
% else:
    const long across = (lanes0 + ${V * passes[0].planes - 1}) / ${V * passes[0].planes};
% endif
    for (long strip = first; strip < minimum(strips, first + run); strip++) {
        const long batch_item = strip${"" if two_passes else " / across"};
        __global const real_t *x0 = x
            + ${outer["x"].components} * (x_offset${"".join(f" + {at} * x_batch{d}" for d, at in enumerate(batch))});
% if times:
        __global const real_t *t0 = t + 2 * (t_offset${"".join(f" + {at} * t_batch{d}" for d, at in enumerate(batch))});
% endif
        __global real_t *y0 = y + ${outer["y"].components}
            * (y_offset${"".join(f" + {at} * y_batch{d}" for d, at in enumerate(batch))});
% if outer["y"].stepped:
        const long y_number = ${batch[-1]} * y_limit_batch;
% endif
% for k, pass_ in enumerate(passes):
<%
side_in, side_out = names[k]
first_in, first_out = ("x0" if side_in == "x" else side_in), ("y0" if side_out == "y" else side_out)
strip_lanes = V * pass_.planes
load_number = loads.index((pass_.source, pass_.planes))
store_number = stores.index((pass_.result, pass_.planes, pass_.twisted))
load_arguments = f"{side_in}_rows, {side_in}_row, {side_in}_lane, lane, live, {side_in}_limit, {side_in}_limit_row"
load_arguments += f", {side_in}_factor" if pass_.source.factor else ""
result, minus_number = pass_.result, " - y_number" if pass_.result.stepped else ""
# Numbers count from that of row 0 of lane 0, and a folded row's limit counts from twice that.
subtracted = minus_number + minus_number if result.form == "folded" else minus_number
limit = f"{side_out}_limit{subtracted}"
store_arguments = f"{side_out}_rows, {side_out}_row, {side_out}_lane, lane, live, {limit}, {side_out}_limit_row"
store_arguments += f", y_first, y_begin{minus_number}" if side_out == "y" else ", 0, 0"
store_arguments += (", y_limit_batch" if result.stepped else "") + (f", {side_out}_factor" if result.factor else "")
store_arguments += ", t0 + 2 * lane * t_lane, t_row, t_lane, t_conjugate" if pass_.result.times else ""
store_arguments += f", fine{k}, coarse{k} + lane / {strip_lanes} * 2 * n{k}" if pass_.twisted else ""
%>
% if two_passes:
        for (long lane = 0; lane < lanes${k}; lane += ${strip_lanes}) {
% else:
        {
            const long lane = strip % across * ${strip_lanes};
% endif
            const long live = minimum(lanes${k} - lane, ${strip_lanes});
            load_rows${load_number}(s, n${k}, flip,
                ${first_in} + ${pass_.source.components} * lane * ${side_in}_lane, ${load_arguments});
            transform(s, roots${k}, order${k}, n${k});
            store${store_number}(s, order${k} + ORDER_AT, n${k}, flip, ${"scale" if k + 1 == len(passes) else "1"},
                ${first_out} + ${result.components} * lane * ${side_out}_lane, ${store_arguments});
        }
% endfor
    }
% if len(launches) > 1:
    }
% endif
% endfor
}
