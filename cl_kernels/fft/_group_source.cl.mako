## A part of fft/group: read a source to the registers of the first stage.  In a transform by chirps the numbers are
## multiplied by the chirp; in a cyclic convolution they are permuted.
##
##   read(plan, source, planes, fixed, tag, unconditional, ahead_rank)
##       set re and im.  fixed: see _group_places.  unconditional: see _group_load.  ahead_rank: the rank of
##       _group_ahead, or 0 without it
##
## The work-items of butterflies read their rows from global memory, or, if the source is staged, from local memory
## (_group_staged).
## In scope (_group_pass): lane0, the group's first lane; lanes_here, lanes of the group; re, im: number r of the
## work-item's butterfly b at b R + r, whose row is stage.item + b * plan.items + r * stage.count.
<%namespace name="ahead" file="/fft/_group_ahead.cl.mako"/>
<%namespace name="chirps" file="/fft/_group_chirps.cl.mako"/>
<%namespace name="cyclic" file="/fft/_group_cyclic.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="split" file="/fft/_group_split.cl.mako"/>
<%namespace name="staged" file="/fft/_group_staged.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%def name="read(plan, source, planes, fixed, tag, unconditional, ahead_rank)">
<% first, folded = plan.stages[0], source.form == "folded" %>\
% if plan.staged_source:
${rows.begin("x", source, 0, "lane0")}\
<% cases = (True, False) if planes * plan.slots > 1 else (True,) %>\
% for all_here in cases:
    ${f"if (lanes_here == {planes * plan.slots})" if all_here else "else"} {
${staged.load(plan, source, planes, fixed, tag, all_here)}\
    }
% endfor
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% if plan.cyclic:
${cyclic.read_permuted(plan)}\
% else:
${local.read(plan, first, plan.natural, ("re", "im"), plan.used_inputs)}\
% endif
% if plan.chirp:
${chirps.multiply_input(plan)}\
% endif
% elif source.form == "packed":
${split.read(plan, source)}\
% else:
<%
lane, live = f"lane0 + {planes} * {first.slot}", f"remaining({planes} * {first.slot}, lanes_here)"
if unconditional and plan.slots > 1:
    lane = f"min({lane}, lanes - 1)"
%>\
${rows.begin("x", source, first.item, lane)}\
% if ahead_rank:
${ahead.load(plan, ahead_rank)}\
% elif source.form == "half":
% for r in range(plan.n // 2 + 1):
    {
        pair_t mirror;
        const pair_t v = load_row${tag}(${rows.further("x", source, r, 0, "")}, ${r}, ${lane}, ${live}, sign${fixed},
            ${plan.n}, &mirror);
        re[${r}] = v.x, im[${r}] = v.y;
% if 0 < r < plan.n - r:
        re[${plan.n - r}] = mirror.x, im[${plan.n - r}] = mirror.y;
% endif
    }
% endfor
% else:
% for b in range(first.butterflies):
    ${local.guard(plan, first, b)}{
% for r in range(plan.used_inputs):
<%
further = b * plan.items + r * first.count
row = f"min({first.item} + {further}, n - 1)" if plan.chirp else f"{first.item} + {further}"
# Beyond the last row a chirp's reads repeat it, so the distance from the first row is known only at run time.
distance = f"(int){row} - (int){first.item}" if plan.chirp else further
mirrored = mirrored_argument = ""
if folded:
    mirrored = rows.module.mirrored_of(plan, first, r) or rows.module.mirrored("x", source, row, lane)
    mirrored_argument = f", {mirrored}"
%>\
        const pair_t v${r} = load_row${tag}(${rows.further("x", source, distance, 0, mirrored)}, ${row},
            ${lane}${mirrored_argument}, ${live}, sign${fixed});
% endfor
% for r in range(plan.used_inputs):
        re[${b * first.radix + r}] = v${r}.x, im[${b * first.radix + r}] = v${r}.y;
% endfor
    }
% endfor
% endif
% if plan.chirp:
${chirps.multiply_input(plan)}\
% endif
% endif
</%def>
