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
<%namespace name="rows" file="/fft/_group_rows.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%namespace name="chirps" file="/fft/_group_chirps.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%include file="/subgroup/warp_barrier.cl.mako"/>
<%
n, suffix = ("n" if plan.chirp else plan.n), "" if real.needs_fp64 else "f"
sides = {"x": source, "y": result}
half_rows = "(n / 2 + 1)" if plan.chirp else plan.n // 2 + 1
half_in, half_out = source.form == "half", result.form == "half"
first, last = plan.stages[0], plan.stages[-1]
all = {"x": all_in, "y": all_out}
given = {name: capture(rows.given, name, side, all[name]) for name, side in sides.items()}
given["y"] += ("" if all_out else ", y_first, y_begin") + (", times, t_row, t_lane, t_conjugate" if result.times else "")
%>
${rows.types(real)}
% if twisted:
${rows.roots()}
% endif
${butterflies.define(sorted({stage.radix for stage in plan.stages}), suffix)}
${stages.define(plan)}
${rows.bring(source, planes, all_in)}
${rows.put(result, planes, twisted and plan.staged_target, all_out)}

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
% if plan.staged_source:
<% count, layout, lane, live = (half_rows if half_in else n), plan.natural, f"lane0 + {planes} * s", f"left({planes} * s, lanes_here)" %>
    for (uint e = id; e < ${count} * ${plan.slots}; e += ${plan.group}) {
        const uint ${plan.walk(plan.source_across, count)};
% if half_in:
        pair_t mirror;
        const pair_t v = bring(${rows.place("x", source, "i", lane)}, i, ${lane}, ${live}, sign${given["x"]}, ${n}, &mirror);
        if (i > 0 && 2 * i < ${n}) {
            const uint m = ${layout.place(f"({n} - i)", "s")};
            numbers[m] = mirror.x, numbers[m + ${layout.size}] = mirror.y;
        }
% else:
        const pair_t v = bring(${rows.place("x", source, "i", lane)}, i, ${lane}, ${live}, sign${given["x"]});
% endif
        const uint at = ${layout.place("i", "s")};
        numbers[at] = v.x, numbers[at + ${layout.size}] = v.y;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
${local.read(plan, first, layout, ("re", "im"))}\
% if plan.chirp:
${chirps.given(plan)}\
% endif
% else:
<% lane, live = f"lane0 + {planes} * {first.slot}", f"left({planes} * {first.slot}, lanes_here)" %>\
    __global const real_t *x_at = ${rows.place("x", source, first.item, lane)};
% for b in range(first.butterflies):
    ${local.guard(plan, first, b)}{
% for r in range(plan.given):
<% further = b * plan.items + r * first.count %>\
        const pair_t v${r} = ${f"{first.item} + {further} >= n ? (pair_t)(0, 0) : " if plan.chirp else ""}bring(${rows.place("x_at", source, further, 0)}, ${first.item} + ${further}, ${lane}, ${live}, sign${given["x"]});
% endfor
% for r in range(plan.given):
        re[${b * first.radix + r}] = v${r}.x, im[${b * first.radix + r}] = v${r}.y;
% endfor
    }
% endfor
% if plan.chirp:
${chirps.given(plan)}\
% endif
% endif
${transform(plan.staged_source)}\
% if plan.chirp:
${chirps.filtered(plan)}\
${local.bring_back(plan)}\
${transform(True)}\
${chirps.wanted(plan)}\
% endif
% if plan.staged_target:
<% count, layout, live = (half_rows if half_out else n), plan.natural, f"left({planes} * s, lanes_here)" %>
% if len(plan.stages) > 1 or plan.staged_source:
    ${plan.barrier};
% endif
${local.write(plan, last, layout, ("re", "im"))}\
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = id; e < ${count} * ${plan.slots}; e += ${plan.group}) {
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
        const pair_t root${p} = with_sign(root_of((ulong)i * (ulong)min(lane + ${p}, lanes - 1), coarse, fine, shift), sign);
% endfor
% endif
        put(${rows.place("y", result, "i", "lane")}, i, lane, ${live}, sign, scale${given["y"]}, v${", mirror" if half_out else ""}${"".join(f", root{p}" for p in range(planes)) if twisted else ""});
    }
% else:
% if twisted:
${stages.twist_all(plan, last, planes)}\
% endif
<% lane, live = f"lane0 + {planes} * {last.slot}", f"left({planes} * {last.slot}, lanes_here)" %>\
    __global real_t *y_at = ${rows.place("y", result, last.item, lane)};
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
% for r in range(plan.wanted):
<% further = b * plan.items + r * last.count %>\
        ${f"if ({last.item} + {further} < n) " if plan.chirp else ""}put(${rows.place("y_at", result, further, 0)}, ${last.item} + ${further}, ${lane}, ${live}, sign, scale${given["y"]}, (pair_t)(re[${b * last.radix + r}], im[${b * last.radix + r}]));
% endfor
    }
% endfor
% endif
}
