## A part of fft/group: store the results of the last stage, which are in registers, in the target.
##
##   write(plan, result, planes, number_of, loaded, fixed, tag)
##       result, planes, tag: as in group.  fixed: see _group_places.  number_of(slot, plane): the number l of the
##       twiddle factors, if there are any; loaded: whether load_twists (_group_stages) has loaded them
## remaining: see _group_numbers.  In scope (_group_pass): lane0, the group's first lane; lanes_here, its lanes; re,
## im: number r of the work-item's butterfly b at b R + r.  A staged target is stored from local memory (_group_staged).
<%namespace name="cyclic" file="/fft/_group_cyclic.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%namespace name="split" file="/fft/_group_split.cl.mako"/>
<%namespace name="staged" file="/fft/_group_staged.cl.mako"/>
<%namespace name="stages" file="/fft/_group_stages.cl.mako"/>
<%def name="write(plan, result, planes, number_of, loaded, fixed, tag)">
<% last, half, folded = plan.final, result.form == "half", result.form == "folded" %>\
% if plan.staged_target:
% if len(plan.stages) > 1 or plan.staged_source:
    ${plan.barrier};
% endif
% if plan.cyclic:
${cyclic.write_permuted(plan)}\
% else:
${local.write(plan, last, plan.natural, ("re", "im"), plan.used_outputs)}\
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
${rows.begin("y", result, 0, "lane0")}\
<% cases = (True, False) if planes * plan.slots > 1 else (True,) %>\
% for all_here in cases:
    ${f"if (lanes_here == {planes * plan.slots})" if all_here else "else"} {
${staged.store(plan, result, planes, number_of, loaded, fixed, tag, all_here)}\
    }
% endfor
% elif result.form == "split":
${split.write(plan, result, fixed, tag)}\
% else:
% if number_of:
${stages.twist_all(plan, number_of, loaded)}\
% endif
<%
lane, live = f"lane0 + {planes} * {last.slot}", f"remaining({planes} * {last.slot}, lanes_here)"
roots = "".join(f", root{plane}" for plane in range(planes)) if number_of else ""
%>\
${rows.begin("y", result, last.item, lane)}\
% if half:
% for r in range(plan.n // 2 + 1):
<% mirror = -r % plan.n %>\
    put${tag}(${rows.further("y", result, r, 0, "")}, ${r}, ${lane}, ${live}, sign, scale${fixed},
        (pair_t)(re[${r}], im[${r}]), (pair_t)(re[${mirror}], im[${mirror}])${roots});
% endfor
% else:
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
% for r in range(plan.used_outputs):
<%
further = b * plan.items + r * last.count
row = f"{last.item} + {further}"
mirrored = mirrored_argument = ""
if folded:
    mirrored = rows.module.mirrored_of(plan, last, r) or rows.module.mirrored("y", result, row, lane)
    mirrored_argument = f", {mirrored}"
%>\
        ${f"if ({row} < n) " if plan.chirp else ""}put${tag}(${rows.further("y", result, further, 0, mirrored)},
            ${row}, ${lane}${mirrored_argument}, ${live}, sign, scale${fixed},
            (pair_t)(re[${b * last.radix + r}], im[${b * last.radix + r}]));
% endfor
    }
% endfor
% endif
% endif
</%def>
