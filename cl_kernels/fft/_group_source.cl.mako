## A part of fft/group: read a source to the registers of the first stage.  In a transform by chirps the numbers are
## multiplied by the chirp; in a cyclic convolution they are permuted.
##
##   read(plan, source, planes, fixed, tag, sure, ahead_rank)     set re and im
##       fixed: see _group_places.  sure: see _group_load.  ahead_rank: the rank of _group_ahead, or 0 without it
##
## The work-items of butterflies read their rows from global memory, or, if the source is staged, from local memory.  A
## work-item copies the numbers u = 0, 1 ... of a staged source: slot s{u}, row i{u}; layout: _group_exchange.
## In scope (_group_pass): lane0, the group's first lane; lanes_here, lanes of the group; re, im: number r of the
## work-item's butterfly b at b R + r, whose row is .item + b * items + r * count.
<%namespace name="ahead" file="/fft/_group_ahead.cl.mako"/>
<%namespace name="chirps" file="/fft/_group_chirps.cl.mako"/>
<%namespace name="cyclic" file="/fft/_group_cyclic.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="split" file="/fft/_group_split.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%def name="read(plan, source, planes, fixed, tag, sure, ahead_rank)">
<% first, folded = plan.stages[0], source.form == "folded" %>\
% if plan.staged_source:
${rows.begin("x", source, 0, "lane0")}\
% for all_here in (True, False)[: planes * plan.slots]:
    ${f"if (lanes_here == {planes * plan.slots})" if all_here else "else"} {
${staged(plan, source, planes, fixed, tag, all_here)}\
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
lane = f"min({lane}, lanes - 1)" if sure and plan.slots > 1 else lane
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
<% further = b * plan.items + r * first.count %>\
<% row = f"min({first.item} + {further}, n - 1)" if plan.chirp else f"{first.item} + {further}" %>\
<%
# Beyond the last row a chirp's reads repeat it, so the distance from the first row is known only at run time.
distance = f"(int){row} - (int){first.item}" if plan.chirp else further
mirrored = (rows.module.mirrored_of(plan, first, r) or rows.module.mirrored("x", source, row, lane)) if folded else ""
%>\
        const pair_t v${r} = load_row${tag}(${rows.further("x", source, distance, 0, mirrored)}, ${row},
            ${lane}${", " * folded}${mirrored}, ${live}, sign${fixed});
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

## Copy a source to local memory.  all_here: whether all lanes of the group exist.
<%def name="staged(plan, source, planes, fixed, tag, all_here)">
<%
count, layout, half = plan.rows(source.form), plan.natural, source.form == "half"
folded = source.form == "folded"
numbers = range(plan.at_once(source.form))
conditions = [plan.there(plan.source_across, count, u) for u in numbers]
%>\
% for u in numbers:
        const uint ${plan.walk(plan.source_across, count, u)};
% if half:
        pair_t mirror${u};
% endif
<%
live = planes if all_here else f"remaining({planes} * s{u}, lanes_here)"
mirrored = rows.module.mirrored("x", source, f"i{u}", f"lane0 + {planes} * s{u}") if folded else ""
%>\
        const pair_t v${u} = load_row${tag}(${rows.staged_place("x", plan, source, planes, u, mirrored)}, i${u},
            lane0 + ${planes} * s${u}${", " * folded}${mirrored},
            ${f"{conditions[u]} ? {live} : 0" if conditions[u] else live},
            sign${fixed}${f", {plan.n_in_text}, &mirror{u}" if half else ""});
% endfor
% for u in numbers:
        ${f"if ({conditions[u]}) " if conditions[u] else ""}{
            const uint at = ${layout.place(f"i{u}", f"s{u}")};
            numbers[at] = v${u}.x, numbers[at + ${layout.size}] = v${u}.y;
% if half:
            if (i${u} > 0 && 2 * i${u} < ${plan.n_in_text}) {
                const uint mirror_at = ${layout.place(f"({plan.n_in_text} - i{u})", f"s{u}")};
                numbers[mirror_at] = mirror${u}.x, numbers[mirror_at + ${layout.size}] = mirror${u}.y;
            }
% endif
        }
% endfor
</%def>
