## A part of tiles: the taps of an output, by nested loops over the ruled axes, unrolled where `taps` says so.
## Parameters: see _parts.  t, p, o, w followed by the number of an axis: tap, its place, output, weight.
##
##   for each tap of axis 0 | for each tap of axis 1 | ... | take source[base + offset 0 + offset 1 + ...]
##
## A weighted sum is computed axis by axis: sum w0 (sum w1 (...)).  If unrolled taps are selected by an
## index, all of them are loaded, those that are missing (-1) from place 0, so that their loads are in flight together.
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>

## Declare the offsets and weights of the unrolled taps of axis k, whose output is at o{k}.
<%def name="declare(k)">\
% for t in range(taps[k]):
    const int ${"place" if routed else "p"}${k}_${t} = places${k}[o${k}${f" + {t} * size{k}" if t else ""}];
% if routed:
    const int p${k}_${t} = max(place${k}_${t}, 0);
% endif
% if kind == "sum":
    const ${e.real} w${k}_${t} = weights${k}[o${k}${f" + {t} * size{k}" if t else ""}];
% endif
${offsets(k, f"p{k}_{t}", f"{k}_{t}")}\
% endfor
</%def>

## Declare the offsets of a place on axis k in each source, and in the flat index (f).
<%def name="offsets(k, place, suffix)">\
% for n in sources:
    const ${index} ${n}${suffix} = ${place} * ${n}_step${k};
% endfor
% if kind in ("argmax", "picked"):
    const ${index} f${suffix} = ${place} * flat${k};
% endif
</%def>

## Combine all taps of the axes k, k + 1, ...  at: the offset so far in each source; flat: the index so far; places: the
## names of the places that may be -1.
<%def name="nest(k, at, flat, places=())">\
% for t in range(taps[k]):
${inner(k, f"{k}_{t}", f"w{k}_{t}", at, flat, (*places, f"place{k}_{t}"))}\
% endfor
% if taps[k] == 0:
    for (${index} t${k} = 0; t${k} < most${k}; t${k}++) {
        const int p${k} = places${k}[t${k} * size${k} + o${k}];
        if (p${k} < 0) break;
% if kind == "sum":
        const ${e.real} w${k} = weights${k}[t${k} * size${k} + o${k}];
% endif
${offsets(k, f"p{k}", f"{k}_")}\
${inner(k, f"{k}_", f"w{k}", at, flat, places)}\
    }
% endif
</%def>

## The part of `nest` for one tap of axis k, whose offsets end with `suffix`: the axes after k, or, of the last one, the
## tap.
<%def name="inner(k, suffix, weight, at, flat, places)">\
<%
    at = {n: f"{at[n]}{' + ' if at[n] else ''}{n}{suffix}" for n in sources}
    flat = f"{flat}{' + ' if flat else ''}f{suffix}"
    last = k == len(taps) - 1
%>\
% if last:
    ${leaf(at, flat, weight, f"sum{k}" if kind == "sum" else "acc", places)}
% elif kind == "sum":
    {
        ${parts.type_of()} sum${k + 1} = 0;
${nest(k + 1, at, flat, places)}\
        sum${k} += ${weight} * sum${k + 1};
    }
% else:
${nest(k + 1, at, flat, places)}\
% endif
</%def>

## Combine one tap with the accumulator `acc`.
<%def name="leaf(at, flat, weight, acc, places)">\
<%
    value = f"{e.name}_load{V if V > 1 else ''}(x + ({at['x']}))"
    named = f"which[{at['which']}] == own" if routed else ""
    inside = f"({' | '.join(places)}) >= 0" if routed and places else ""
%>\
% if routed:
{ const ${parts.type_of()} v = ${value}; const bool is_own = ${named}${f" & {inside}" if inside else ""}; \
acc = ${"is_own ? v : acc" if kind == "placed" else "acc + (is_own ? v : 0)"}; }\
% elif kind == "picked":
if (${flat} == *which) acc = ${value};\
% else:
${parts.take(acc, value, flat, "found", weight)}\
% endif
</%def>
