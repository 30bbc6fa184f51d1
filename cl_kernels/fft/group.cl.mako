## Transforms on a GPU: a work-group has one, or several side by side, in its registers.
##
##      source ──bring──▶ stage 0 ──local memory──▶ stage 1 ──local memory──▶ ... last stage ──put──▶ target
##
##      work-item (t, slot)      holds butterflies t, t + items ... of a stage, for the transform of its slot;
##                               neighbours go along slots where lanes lie side by side, else along t
##
## Work-items change between these two orders at the first exchange.  A side is staged, so that neighbours go
## through it in order whatever the butterflies: where the runs of rows are short, and for rows that need
## their mirror image (form half).
##
## plan      GroupPlan of ops/fft/group: items, slots, stages, layouts       planes    lanes of a slot
## source, result      Side: the form of a row, factors                      rank      batch axes besides the lanes
##                     result.times: an array t that results are multiplied by, number by number
## twisted   whether rows are multiplied by roots of one, between two passes of a long transform
## plan.chirp        a transform of n is a convolution of a longer one: times the chirp, there, times the filter, back,
##                   times the chirp
## early     whether the roots of a stage are on their way while numbers are exchanged
## all_in, all_out   whether every row of every lane is there
## A group reads all rows of its transforms before it writes one, so the source may be the target.
##
## Two real transforms are one complex one: see cpu.  The other direction is the conjugate of this one of conjugates.
<%namespace name="butterflies" file="/fft/_butterflies.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="numbers" file="/fft/_group_numbers.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%namespace name="source_rows" file="/fft/_group_bring.cl.mako"/>
<%namespace name="result_rows" file="/fft/_group_put.cl.mako"/>
<%namespace name="side_in" file="/fft/_group_source.cl.mako"/>
<%namespace name="side_out" file="/fft/_group_result.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%namespace name="chirps" file="/fft/_group_chirps.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%include file="/subgroup/warp_barrier.cl.mako"/>
<%
suffix = "" if real.needs_fp64 else "f"
sides = {"x": source, "y": result}
first, last = plan.stages[0], plan.stages[-1]
all = {"x": all_in, "y": all_out}
given = {name: capture(rows.given, name, side, all[name]) for name, side in sides.items()}
given["y"] += ("" if all_out else ", y_first, y_begin") + (", times, t_row, t_lane, t_conjugate" if result.times else "")
%>
${numbers.types(real)}
% if twisted:
${numbers.roots()}
% endif
${butterflies.define(sorted({stage.radix for stage in plan.stages}), suffix)}
${stages.define(plan)}
${source_rows.bring(source, planes, all_in)}
${result_rows.put(result, planes, twisted and plan.staged_target, all_out)}

<%def name="transform(used)">
    {
    stage0(re, im);
% for before, stage in zip(plan.stages, plan.stages[1:]):
% if early:
${stages.roots(plan, stage)}\
% endif
${local.exchange(plan, before, stage, used or before.number > 0)}\
% if not early:
${stages.roots(plan, stage)}\
% endif
    stage${stage.number}(re, im, w${stage.number});
% endfor
    }
</%def>
__kernel ${group.of_size(plan.group)}
void fft(__global const pair_t *roots, long lanes, int flip, real_t scale\
% if plan.chirp:
, uint n, __global const pair_t *chirp, __global const pair_t *filter\
% endif
% if twisted:
, __global const pair_t *coarse, __global const pair_t *fine, int shift\
% endif
% for name, side in sides.items():
, __global ${"const " if name == "x" else ""}real_t *${name}_in, long ${name}_offset, long ${name}_rows, long ${name}_row, long ${name}_lane, long ${name}_limit, long ${name}_limit_row${''.join(f', long {name}_batch{d}' for d in range(rank))}\
% if side.factor:
, __global const pair_t *${name}_factor\
% endif
% endfor
, long y_first, long y_begin\
% if result.times:
, __global const pair_in_memory_t *t_in, long t_offset, long t_row, long t_lane, int t_conjugate${''.join(f', long t_batch{d}' for d in range(rank))}\
% endif
${''.join(f', uint batch{d}_size' for d in range(rank))})
{
% if len(plan.stages) > 1 or plan.staged_source or plan.staged_target:
    __local real_t numbers[${plan.local_numbers}];
% endif
    const uint id = get_local_id(0);
    const uint ${plan.order(plan.before, first)};
% if len(plan.stages) > 1:
    const uint ${plan.order(plan.after, last)};
% endif
    const uint across = (lanes + ${plan.slots * planes - 1}) / ${plan.slots * planes};
    const uint batch_item = (uint)get_group_id(0) / across;
    const long lane0 = (long)((uint)get_group_id(0) % across) * ${plan.slots * planes};
    const uint lanes_here = min(lanes - lane0, ${plan.slots * planes}l);
    const real_t sign = flip ? -1 : 1;
% for name, side in sides.items():
    __global ${"const " if name == "x" else ""}real_t *${name} = ${name}_in + ${side.components} * (${name}_offset\
${"".join(f" + {at} * {name}_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))});
% endfor
% if result.times:
    __global const pair_in_memory_t *times = t_in + t_offset${"".join(f" + {at} * t_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))};
% endif
    real_t re[${plan.held}], im[${plan.held}];
${side_in.read(plan, source, planes, given["x"])}\
${transform(plan.staged_source)}\
% if plan.chirp:
${chirps.filtered(plan)}\
${local.bring_back(plan)}\
${transform(True)}\
${chirps.wanted(plan)}\
% endif
${side_out.write(plan, result, planes, twisted, given["y"])}\
}
