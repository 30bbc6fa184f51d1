## From a source to the registers of the first stage, times the chirp if there is one.
##
##   read(plan, source, planes, given, tag)     re, im; given: arguments of bring
##
## Rows go straight to the work-items of their butterflies, or, staged, in order to local memory and from there.
<%namespace name="chirps" file="/fft/_group_chirps.cl.mako"/>
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%def name="read(plan, source, planes, given, tag)">
<% first = plan.stages[0] %>\
% if plan.staged_source:
<% count, layout, lane, live = plan.rows(source.form), plan.natural, f"lane0 + {planes} * s", f"left({planes} * s, lanes_here)" %>
    for (uint e = id; e < ${count} * ${plan.slots}; e += ${plan.group}) {
        const uint ${plan.walk(plan.source_across, count)};
% if source.form == "half":
        pair_t mirror;
        const pair_t v = bring${tag}(${rows.place("x", source, "i", lane)}, i, ${lane}, ${live}, sign${given}, ${plan.n_in_text}, &mirror);
        if (i > 0 && 2 * i < ${plan.n_in_text}) {
            const uint m = ${layout.place(f"({plan.n_in_text} - i)", "s")};
            numbers[m] = mirror.x, numbers[m + ${layout.size}] = mirror.y;
        }
% else:
        const pair_t v = bring${tag}(${rows.place("x", source, "i", lane)}, i, ${lane}, ${live}, sign${given});
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
        const pair_t v${r} = ${f"{first.item} + {further} >= n ? (pair_t)(0, 0) : " if plan.chirp else ""}bring${tag}(${rows.place("x_at", source, further, 0)}, ${first.item} + ${further}, ${lane}, ${live}, sign${given});
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
</%def>
