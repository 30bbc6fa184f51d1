## One pass of the kernel fft/group, which has one or two passes.  pass_: its description, see there; plan: GroupShape.
##
##   define(pass_)                 define the functions of the pass
##   body(pass_, rank, number)     compute the transforms of work-group `number` (C text): read, stages, store
##   branch(pass_, rank, number)   the body for one of two passes, whose kernel parameters have the suffix pass_.tag;
##                                 those that the body reads are declared first, without the suffix
##
## The body declares: t0, slot0: the work-item's index in its transform, and its transform of the group's, in the first
## stage; t, slot: in the others; lane0, lanes_here: the group's first lane, and its lanes; re, im: the work-item's
## numbers: number r of its butterfly b at b R + r.  rank: batch axes.
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
<%def name="define(pass_)">
${stages.define(pass_.plan, pass_.tag)}
% if pass_.source.form != "packed":
${source_rows.load(pass_.source, pass_.planes, pass_.all_in, pass_.unconditional, pass_.tag)}
% endif
${result_rows.put(pass_.result, pass_.planes, pass_.twisted and pass_.plan.staged_target, pass_.all_out, pass_.tag)}
% if pass_.result.form == "split":
${split.define(pass_.result, pass_.all_out, pass_.tag)}
% endif
</%def>

<%def name="branch(pass_, rank, number)">
<%
text = capture(body, pass_, rank, number)
words = set(re.findall(r"\w+", text))
%>\
% for parameter in (parameter for parameter in pass_.parameters(rank) if parameter.name in words):
        ${"" if parameter.scalar is None else "const "}${parameter} = ${parameter.name}${pass_.tag};
% endfor
${text}\
</%def>

## Run the stages of a list, by butterflies in registers, with exchanges between them.  w{number}: a stage's roots.
## used: whether local memory was used before.
<%def name="transform(pass_, stage_list, used)">
    {
    stage${stage_list[0].number}${pass_.tag}(re, im);
% for before, stage in zip(stage_list, stage_list[1:]):
% if pass_.early:
${stages.roots(pass_.plan, stage)}\
% endif
${local.exchange(pass_.plan, before, stage, used or before is not stage_list[0])}\
% if not pass_.early:
${stages.roots(pass_.plan, stage)}\
% endif
    stage${stage.number}${pass_.tag}(re, im, w${stage.number});
% endfor
    }
</%def>

<%def name="body(pass_, rank, number)">
<%
plan, planes, sides = pass_.plan, pass_.planes, {"x": pass_.source, "y": pass_.result}
first, last = plan.stages[0], plan.final
# C text of the arguments that all calls of load_row and put have.
fixed_x = capture(rows.fixed, "x", pass_.source, pass_.all_in)
if not pass_.all_in and pass_.source.form != "folded":
    fixed_x += ", x"
fixed_y = capture(rows.fixed, "y", pass_.result, pass_.all_out)
if not pass_.all_out:
    fixed_y += ", y_first, " + ("y_begin - y_number" if pass_.result.stepped else "y_begin")
if pass_.result.times:
    fixed_y += ", times, t_row, t_lane, t_conjugate"

def number_of(slot, plane=0):
    """C text of the number l in the twiddle factors exp(-2 pi i k l / twiddle_length) of lane planes * slot + plane."""
    lane = f"min(lane0 + {planes} * {slot} + {plane}, lanes - 1)"
    if pass_.by_batch:
        return f"(ulong)(batch_item % batch{rank - 1}_size)"
    return f"(ulong)(x_number + {lane})" if pass_.source.stepped else f"(ulong){lane}"
%>\
    const uint ${plan.order(plan.before, first)};
    ${f"const uint {plan.order(plan.after, last)};" if last.number > 0 else ""}
    const uint across = (lanes + ${plan.slots * planes - 1}) / ${plan.slots * planes};  // groups side by side
    const uint batch_item = ${number} / across;
    const long lane0 = (long)(${number} % across) * ${plan.slots * planes};
    const uint lanes_here = min(lanes - lane0, ${plan.slots * planes}l);
% for name, side in sides.items():
% if side.stepped:
    const long ${name}_number = (long)(batch_item % batch${rank - 1}_size) * ${name}_limit_batch;
% endif
    __global ${"const " if name == "x" else ""}real_t *${name} = ${name}_data + ${side.components} * (${name}_offset\
${"".join(f" + {at} * {name}_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))});
% endfor
% if pass_.result.times:
    __global const pair_in_memory_t *times = t_data
        + t_offset${"".join(f" + {at} * t_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))};
% endif
    real_t re[${plan.numbers_per_item}], im[${plan.numbers_per_item}];
${side_in.read(plan, pass_.source, planes, fixed_x, pass_.tag, pass_.unconditional, rank if pass_.ahead else 0)}\
% if pass_.twists:
${stages.load_twists(plan, pass_.result.form, number_of)}\
% endif
% if plan.cyclic:
${cyclic.read_zeroth(plan)}\
% endif
${transform(pass_, plan.stages, plan.staged_source or pass_.ahead)}\
% if plan.back:
${(cyclic if plan.cyclic else chirps).multiply_spectrum(plan)}\
${transform(pass_, plan.back, True)}\
% endif
% if plan.chirp:
${chirps.multiply_result(plan)}\
% endif
${side_out.write(plan, pass_.result, planes, number_of if pass_.twisted else None, pass_.twists, fixed_y, pass_.tag)}\
</%def>
