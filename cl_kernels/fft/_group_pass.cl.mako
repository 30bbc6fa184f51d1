## One pass of a kernel of group.
##
##   define(p)                 its functions
##   body(p, rank, number)     the transforms of its work-group `number`
##   branch(p, rank, number)   the same, and before it those of the parameters that it reads, by their own names
<%!
import re

from portable_gpu.codegen import axes
%>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%namespace name="source_rows" file="/fft/_group_bring.cl.mako"/>
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
${source_rows.bring(p.source, p.planes, p.all_in, p.sure, p.tag)}
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
% for one in p.parameters(rank):
% if one.name in read:
        ${"" if one.scalar is None else "const "}${one} = ${one.name}${p.tag};
% endif
% endfor
${text}\
</%def>

<%def name="transform(p, passed, used)">
<% plan = p.plan %>\
    {
    stage${passed[0].number}${p.tag}(re, im);
% for before, stage in zip(passed, passed[1:]):
% if p.early:
${stages.roots(plan, stage)}\
% endif
${local.exchange(plan, before, stage, used or before is not passed[0])}\
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
all = {"x": p.all_in, "y": p.all_out}
given = {name: capture(rows.given, name, side, all[name]) for name, side in sides.items()}
begin = "y_begin - y_number" if p.result.stepped else "y_begin"
given["x"] += "" if p.all_in or p.source.form == "folded" else ", x"
given["y"] += "" if p.all_out else f", y_first, {begin}"
given["y"] += ", times, t_row, t_lane, t_conjugate" if p.result.times else ""

def number_of(slot, plane=0):
    """C expression of l of the roots between two passes."""
    lane = f"min(lane0 + {planes} * {slot} + {plane}, lanes - 1)"
    if p.by_batch:
        return f"(ulong)(batch_item % batch{rank - 1}_size)"
    return f"(ulong)(x_number + {lane})" if p.source.stepped else f"(ulong){lane}"
%>\
    const uint ${plan.order(plan.before, first)};
% if last.number > 0:
    const uint ${plan.order(plan.after, last)};
% endif
    const uint across = (lanes + ${plan.slots * planes - 1}) / ${plan.slots * planes};
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
    real_t re[${plan.held}], im[${plan.held}];
${side_in.read(plan, p.source, planes, given["x"], p.tag, p.sure, rank if p.ahead else 0)}\
% if p.twists:
${stages.bring_twists(plan, p.result.form, number_of)}\
% endif
% if plan.cyclic:
${cyclic.kept(plan)}\
% endif
${transform(p, plan.stages, plan.staged_source or p.ahead)}\
% if plan.back:
${(cyclic if plan.cyclic else chirps).filtered(plan)}\
${transform(p, plan.back, True)}\
% endif
% if plan.chirp:
${chirps.wanted(plan)}\
% endif
${side_out.write(plan, p.result, planes, number_of if p.twisted else None, p.twists, given["y"], p.tag)}\
</%def>
