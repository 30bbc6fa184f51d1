## One pass of the kernel fft/group, which has one or two passes.
##
##   define(p)                 define the functions of the pass
##   body(p, rank, number)     compute the transforms of work-group `number` of the pass
##   branch(p, rank, number)   the body for one of two passes, whose kernel parameters have the suffix p.tag; the
##                             parameters that the body reads are declared first, without the suffix
<%!
import re

from portable_gpu.codegen import axes
%>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%namespace name="source_rows" file="/fft/_group_load.cl.mako"/>
<%namespace name="result_rows" file="/fft/_group_put.cl.mako"/>
<%namespace name="side_in" file="/fft/_group_source.cl.mako"/>
<%namespace name="side_out" file="/fft/_group_result.cl.mako"/>
<%namespace name="split" file="/fft/_group_split.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%namespace name="cyclic" file="/fft/_group_cyclic.cl.mako"/>
<%namespace name="chirps" file="/fft/_group_chirps.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%def name="define(p)">
${stages.define(p.plan, p.tag)}
% if p.source.form != "packed":
${source_rows.load(p.source, p.planes, p.all_in, p.sure, p.tag)}
% endif
${result_rows.put(p.result, p.planes, p.twisted and p.plan.staged_target, p.all_out, p.tag)}
% if p.result.form == "split":
${split.define(p.result, p.all_out, p.tag)}
% endif
</%def>

<%def name="branch(p, rank, number)">
<%
text = capture(body, p, rank, number)
read = set(re.findall(r"\w+", text))
%>\
% for parameter in p.parameters(rank):
% if parameter.name in read:
        ${"" if parameter.scalar is None else "const "}${parameter} = ${parameter.name}${p.tag};
% endif
% endfor
${text}\
</%def>

## Run `stages` with exchanges between them.  used: whether local memory was used before.
<%def name="transform(p, stage_list, used)">
<% plan = p.plan %>\
    {
    stage${stage_list[0].number}${p.tag}(re, im);
% for before, stage in zip(stage_list, stage_list[1:]):
% if p.early:
${stages.roots(plan, stage)}\
% endif
${local.exchange(plan, before, stage, used or before is not stage_list[0])}\
% if not p.early:
${stages.roots(plan, stage)}\
% endif
    stage${stage.number}${p.tag}(re, im, w${stage.number});
% endfor
    }
</%def>

<%def name="body(p, rank, number)">
<%
plan, planes, sides = p.plan, p.planes, {"x": p.source, "y": p.result}
first, last = plan.stages[0], plan.final
fixed_x = capture(rows.fixed, "x", p.source, p.all_in)
if not p.all_in and p.source.form != "folded":
    fixed_x += ", x"
fixed_y = capture(rows.fixed, "y", p.result, p.all_out)
if not p.all_out:
    fixed_y += ", y_first, " + ("y_begin - y_number" if p.result.stepped else "y_begin")
if p.result.times:
    fixed_y += ", times, t_row, t_lane, t_conjugate"

def number_of(slot, plane=0):
    """C expression of the number l of a lane in its twiddle factors exp(-2 pi i k l / whole) between two passes."""
    lane = f"min(lane0 + {planes} * {slot} + {plane}, lanes - 1)"
    if p.by_batch:
        return f"(ulong)(batch_item % batch{rank - 1}_size)"
    return f"(ulong)(x_number + {lane})" if p.source.stepped else f"(ulong){lane}"
%>\
    const uint ${plan.order(plan.before, first)};
% if last.number > 0:
    const uint ${plan.order(plan.after, last)};
% endif
    const uint across = (lanes + ${plan.slots * planes - 1}) / ${plan.slots * planes};  // groups side by side
    const uint batch_item = ${number} / across;
    const long lane0 = (long)(${number} % across) * ${plan.slots * planes};
    const uint lanes_here = min(lanes - lane0, ${plan.slots * planes}l);
% for name, side in sides.items():
% if side.stepped:
    const long ${name}_number = (long)(batch_item % batch${rank - 1}_size) * ${name}_limit_batch;
% endif
    __global ${"const " if name == "x" else ""}real_t *${name} = ${name}_in + ${side.components} * (${name}_offset\
${"".join(f" + {at} * {name}_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))});
% endfor
% if p.result.times:
    __global const pair_in_memory_t *times = t_in
        + t_offset${"".join(f" + {at} * t_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))};
% endif
    real_t re[${plan.numbers_per_item}], im[${plan.numbers_per_item}];
${side_in.read(plan, p.source, planes, fixed_x, p.tag, p.sure, rank if p.ahead else 0)}\
% if p.twists:
${stages.load_twists(plan, p.result.form, number_of)}\
% endif
% if plan.cyclic:
${cyclic.read_zeroth(plan)}\
% endif
${transform(p, plan.stages, plan.staged_source or p.ahead)}\
% if plan.back:
${(cyclic if plan.cyclic else chirps).multiply_spectrum(plan)}\
${transform(p, plan.back, True)}\
% endif
% if plan.chirp:
${chirps.multiply_result(plan)}\
% endif
${side_out.write(plan, p.result, planes, number_of if p.twisted else None, p.twists, fixed_y, p.tag)}\
</%def>
