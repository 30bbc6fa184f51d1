## A part of runs: the loops over the taps of n adjacent outputs, in columns b to b + n - 1.  Parameters: see runs and
## _parts.  across: the number of ruled axes among the rows; t<k>, p<k>, o<k>: tap, place of it, and output on axis k;
## step: for each operand the text " * stride" of a column, or ""; u_<k>: the product of the weights on the axes before
## k; lanes: the elements of an accumulator; acc[j], found[j]: the output in column b + j, or the outputs from column
## b + lanes * j on, and, of a maximum, its index; blended: see runs.
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>

## The loops over the taps of the ruled axes k, k + 1, ...
<%def name="nest(k, across, step, lanes=1)">\
% if k < across:
            for (int t${k} = 0; t${k} < most${k}; t${k}++) {
                const int p${k} = places${k}[t${k} * size${k} + o${k}];
                if (p${k} < 0) break;
% if kind == "sum":
                const ${e.real} u_${k + 1} = u_${k} * weights${k}[t${k} * size${k} + o${k}];
% endif
${nest(k + 1, across, step, lanes)}\
            }
% else:
<% offset = {n: "".join(f" + p{axis} * {n}_step{axis}" for axis in range(across)) for n in sources} %>\
% for n in sources:
            ${parts.pointer(n, "_row")} = ${n}${offset[n]};
% endfor
% if kind in ("argmax", "picked"):
            const ${index} flat = 0${"".join(f" + p{axis} * flat{axis}" for axis in range(across))};
% endif
% if blended:
<% value = f"{e.name}_load(x_row + j{step['x']})" %>\
            for (int j = read_begin; j < read_end; j++)
                ${parts.take("blended[j - read_begin]", value, weight=f"u_{across}")}
% else:
${columns(across, step, lanes)}\
% endif
% endif
</%def>

## Combine the taps of the last ruled axis, or, with plain_columns, of the columns of a plain axis.  In regular columns,
## whose places are `pitch` apart, only the places q_<t> of the first output are loaded.
<%def name="columns(across, step, lanes=1)">\
% if lanes > 1:
<% value = f"{e.name}_load{lanes}(x_row + (b + {lanes} * j))" %>\
#pragma unroll
            for (int j = 0; j < n / ${lanes}; j++)
                ${parts.take("acc[j]", value, "flat", "found[j]", f"u_{across}", lanes=lanes)}
% elif plain_columns:
            for (int j = 0; j < n; j++) { ${leaf("b + j", "flat", f"u_{across}", across, step)} }
% elif taps[across]:
% if pitch is not None:
            if (b >= regular_begin && b + n <= regular_end) {
% for t in range(taps[across]):
                const int q_${t} = places${across}[${f"{t} * size{across} + " if t else ""}b];
% endfor
                for (int j = 0; j < n; j++) {
% for t in range(taps[across]):
                    ${tap(f"(q_{t} + {pitch} * j)", f"{t} * size{across} + b + j", across, step, False)}
% endfor
                }
            } else
% endif
            for (int j = 0; j < n; j++) {
% for t in range(taps[across]):
                const int p_${t} = places${across}[${f"{t} * size{across} + " if t else ""}b + j];
% endfor
% for t in range(taps[across]):
                ${tap(f"p_{t}", f"{t} * size{across} + b + j", across, step)}
% endfor
            }
% else:
            for (int t = 0, more = 1; more && t < most${across}; t++) {
                more = 0;
                for (int j = 0; j < n; j++) {
                    const int p = places${across}[t * size${across} + b + j];
                    more |= p >= 0;
                    if (p >= 0) { ${tap("p", f"t * size{across} + b + j", across, step, False)} }
                }
            }
% endif
</%def>

## One tap of output j at `place` (C text) of the last ruled axis, whose weight is number `at` of the table.  check:
## whether the place may be -1.
<%def name="tap(place, at, across, step, check=True)">\
<%
    place_or_0 = f"max({place}, {'read_begin' if blended else 0})" if check and gaps[across] else place
    weight = f"{'' if blended else f'u_{across} * '}weights{across}[{at}]"
    condition = f"{place} >= 0 && " if check else ""
%>\
${leaf(place_or_0, f"flat + {place} * flat{across}", weight, across, step, condition)}\
</%def>

## A statement: combine one tap with acc[j], the output in column b + j.  at: its column in the source; flat: its flat
## index; condition: a C condition that it exists, followed by `&&`, or "".
<%def name="leaf(at, flat, weight, across, step, condition='')">\
<%
    at = f"max({at}, 0)" if (routed or kind == "picked") and condition else at
    value = f"blended[{at} - read_begin]" if blended else f"{e.name}_load(x_row + ({at}){step['x']})"
    column = "" if plain_columns else f" + (b + j) * flat{across}"
%>\
% if routed:
acc[j] ${"=" if kind == "placed" else "+="} ${condition}which_row[(${at})${step["which"]}] == own${column} \
? ${value} : ${"acc[j]" if kind == "placed" else "0"};\
% elif kind == "picked":
acc[j] = ${condition}${flat} == which[(b + j)${step["which"]}] ? ${value} : acc[j];\
% else:
${parts.take("acc[j]", value, flat, "found[j]", weight, not blended)}\
% endif
</%def>
