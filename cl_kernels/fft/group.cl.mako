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
## A group reads all rows of its transforms before it writes one, so the source may be the target.
##
## Two real transforms are one complex one; the other direction exchanges re and im: see cpu.
<%namespace name="butterflies" file="/fft/_butterflies.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="rows" file="/fft/_group_rows.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%include file="/subgroup/warp_barrier.cl.mako"/>
<%
n, suffix = plan.n, "" if real.needs_fp64 else "f"
sides = {"x": source, "y": result}
half_in, half_out = source.form == "half", result.form == "half"
first, last = plan.stages[0], plan.stages[-1]
given = {name: ", ".join(f"{name}_{part}" for part in ("rows", "row", "lane", "limit", "limit_row")) + (f", {name}_factor" if side.factor else "") for name, side in sides.items()}
given["y"] += ", y_first, y_begin" + (", times, t_row, t_lane, t_conjugate" if result.times else "")
%>
${rows.types(real)}
% if twisted:
${rows.roots()}
% endif
${butterflies.define(sorted({stage.radix for stage in plan.stages}), suffix)}
${stages.define(plan)}
${rows.bring(source, planes)}
${rows.put(result, planes, twisted and plan.staged_target)}

__kernel ${group.of_size(plan.group)}
void fft(__global const pair_t *roots, long lanes, int flip, real_t scale\
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
${''.join(f', long batch{d}_size' for d in range(rank))})
{
% if len(plan.stages) > 1 or plan.staged_source or plan.staged_target:
    __local real_t numbers[${plan.local_numbers}];
% endif
    const uint id = get_local_id(0);
    const uint ${plan.order(plan.before, first)};
% if len(plan.stages) > 1:
    const uint ${plan.order(plan.after, last)};
% endif
    const long across = (lanes + ${plan.slots * planes - 1}) / ${plan.slots * planes};
    const long batch_item = get_group_id(0) / across, lane0 = get_group_id(0) % across * ${plan.slots * planes};
% for name, side in sides.items():
    __global ${"const " if name == "x" else ""}real_t *${name} = ${name}_in + ${side.components} * (${name}_offset\
${"".join(f" + {at} * {name}_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))});
% endfor
% if result.times:
    __global const pair_in_memory_t *times = t_in + t_offset${"".join(f" + {at} * t_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))};
% endif
    real_t re[${plan.held}], im[${plan.held}];
% if plan.staged_source:
<% count, layout = (n // 2 + 1 if half_in else n), plan.natural %>
    for (uint e = id; e < ${count * plan.slots}; e += ${plan.group}) {
        const uint ${plan.walk(plan.source_across, count)};
% if half_in:
        pair_t mirror;
        const pair_t v = bring(x, i, lane0 + ${planes} * s, lanes, flip, ${given["x"]}, ${n}, &mirror);
        if (i > 0 && 2 * i < ${n}) {
            const uint m = ${layout.place(f"({n} - i)", "s")};
            numbers[m] = mirror.x, numbers[m + ${layout.size}] = mirror.y;
        }
% else:
        const pair_t v = bring(x, i, lane0 + ${planes} * s, lanes, flip, ${given["x"]});
% endif
        const uint at = ${layout.place("i", "s")};
        numbers[at] = v.x, numbers[at + ${layout.size}] = v.y;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
${local.read(plan, first, layout, ("re", "im"))}\
% else:
% for b in range(first.butterflies):
    ${local.guard(plan, first, b)}{
% for r in range(first.radix):
        const pair_t v${r} = bring(x, ${first.item} + ${b * plan.items + r * first.count}, lane0 + ${planes} * ${first.slot}, lanes, flip, ${given["x"]});
% endfor
% for r in range(first.radix):
        re[${b * first.radix + r}] = v${r}.x, im[${b * first.radix + r}] = v${r}.y;
% endfor
    }
% endfor
% endif
    stage0(re, im, ${first.item});
% for before, stage in zip(plan.stages, plan.stages[1:]):
${local.exchange(plan, before, stage)}\
    stage${stage.number}(re, im, ${stage.item}, roots);
% endfor
% if plan.staged_target:
<% count, layout = (n // 2 + 1 if half_out else n), plan.natural %>
% if len(plan.stages) > 1 or plan.staged_source:
    ${plan.barrier};
% endif
${local.write(plan, last, layout, ("re", "im"))}\
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = id; e < ${count * plan.slots}; e += ${plan.group}) {
        const uint ${plan.walk(plan.target_across, count)};
        const uint at = ${layout.place("i", "s")};
        const pair_t v = (pair_t)(numbers[at], numbers[at + ${layout.size}]);
        const long lane = lane0 + ${planes} * s;
% if half_out:
        const uint m = ${layout.place(f"(i ? {n} - i : 0)", "s")};
        const pair_t mirror = (pair_t)(numbers[m], numbers[m + ${layout.size}]);
% endif
% if twisted:
% for p in range(planes):
        const pair_t root${p} = conjugate_if(root_of((ulong)i * (ulong)min(lane + ${p}, lanes - 1), coarse, fine, shift), flip);
% endfor
% endif
        put(y, i, lane, lanes, flip, scale, ${given["y"]}, v${", mirror" if half_out else ""}${"".join(f", root{p}" for p in range(planes)) if twisted else ""});
    }
% else:
% if twisted:
${stages.twist_all(plan, last, planes)}\
% endif
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
% for r in range(last.radix):
        put(y, ${last.item} + ${b * plan.items + r * last.count}, lane0 + ${planes} * ${last.slot}, lanes, flip, scale, ${given["y"]}, (pair_t)(re[${b * last.radix + r}], im[${b * last.radix + r}]));
% endfor
    }
% endfor
% endif
}
