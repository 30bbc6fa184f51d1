## A part of blocks: the windows that blocks of outputs read: their places, their loads, and the combination of their
## elements.  Parameters: see blocks.  c<k>: the number of the block along axis k.  w: an element of a window along an
## axis; tap: one that an output reads.  x<w>, which<w>: elements of the window's row in registers.  acc<o>, found<o>,
## is_nan<o>: output o of the block, in C order: its value, its index, and whether a NaN was read.
## AxisBlocks (ops/sampling): step, first: elements c<k> * step + first + w are the window; taps: those that each output
## of the block reads; size, width: outputs and elements of it; inside: whether element w surely exists.
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>

## Declare the places p<k>_<w> and offsets NAME<k>_<w> of the elements w of the window along axis k, and the weights
## w<k>_<output>_<tap> of the outputs of a block.  padded<k>: the length of a row of the table of weights.
## Offsets are needed where loads begin: along the last axis where a segment does (`segments`: see blocks), along the
## first one at every element that is read.
<%def name="declare(k)">\
<%
    rule, is_last = blocks[k], k == len(blocks) - 1
    read = sorted({tap for taps in rule.taps for tap in taps})
    begins = {n: [w for w, _ in segments[n]] if is_last else read for n in sources}
    used = [w for w in range(rule.width) if kind == "argmax" and w in read or any(w in own for own in begins.values())]
%>\
% for w in used:
<% at = f"c{k} * {rule.step} + {rule.first + w}" %>\
    const int p${k}_${w} = ${at if rule.inside[w] else f"clamp((int)({at}), 0, (int)source{k} - 1)"};
% if routed and not rule.inside[w]:
    const bool is_in${k}_${w} = p${k}_${w} == ${at};
% endif
% for n in sources:
% if w in begins[n]:
    const ${index} ${n}${k}_${w} = p${k}_${w} * ${n}_step${k};
% endif
% endfor
% endfor
% if kind == "sum":
% for j, taps in enumerate(rule.taps):
% for t in range(len(taps)):
    const ${e.real} w${k}_${j}_${t} = weights${k}[c${k} * ${rule.size} + ${j} + ${t} * padded${k}];
% endfor
% endfor
% endif
</%def>

## Load row w of a window, and combine its elements with the outputs that read it.
<%def name="row(w)">\
<% last, two = len(blocks) - 1, len(blocks) == 2 %>\
        {
% for n in sources:
% for begin, width in segments[n]:
${loaded(n, w, begin, width, last, two)}\
% endfor
% endfor
% if kind == "sum":
% for j, taps in enumerate(blocks[last].taps if two else ()):
        const ${parts.type_of()} sum${j} = ${" + ".join(f"w{last}_{j}_{t} * x{tap}" for t, tap in enumerate(taps))};
% endfor
% endif
% for j0, taps0 in enumerate(blocks[0].taps if two else ((0,),)):
% for j1, taps in enumerate(blocks[last].taps if w in taps0 else ()):
<% acc, flat0 = f"{j0 * blocks[last].size + j1}", f"p0_{w} * flat0 + " if two else "" %>\
% if kind == "sum" and two:
        acc${acc} += w0_${j0}_${taps0.index(w)} * sum${j1};
% elif kind == "sum":
        acc${acc} = ${" + ".join(f"w{last}_{j1}_{t} * x{tap}" for t, tap in enumerate(taps))};
% elif by_flags:
        acc${acc} = ${largest([f"acc{acc}", *(f"x{tap}" for tap in taps)])};
        is_nan${acc} |= ${" | ".join(f"isunordered(x{a}, x{b})" for a, b in zip(taps[::2], taps[1::2] + taps[-1:]))};
% else:
% for tap in taps:
% if routed:
<% is_own = f"which{tap} == own + ({f'{j0} * flat0 + ' if two else ''}{j1} * flat{last})" %>\
        acc${acc} = ${f"{is_own} ? x{tap} : acc{acc}" if kind == "placed" else f"acc{acc} + ({is_own} ? x{tap} : 0)"};
% else:
        ${parts.take(f"acc{acc}", f"x{tap}", f"{flat0}p{last}_{tap} * flat{last}", f"found{acc}")}
% endif
% endfor
% endif
% endfor
% endfor
        }
</%def>

## Load `width` elements of row w of the window of source n, from `begin` on: those that at least one output reads.
<%def name="loaded(n, w, begin, width, last, two)">\
<%
    at = f"{n} + ({f'{n}0_{w} + ' if two else ''}{n}{last}_{begin})"
    ctype = vector("long" if n == "which" else e.value, max(width, V))
    load = f"{e.name}_load{max(width, V) if max(width, V) > 1 else ''}({at})"
    load = f"*(__global const {ctype} *)({at})" if n == "which" else load
    checks = [f"is_in0_{w}"] if two and n == "which" and not blocks[0].inside[w] else []
    checks += [f"is_in{last}_{begin}"] if n == "which" and not blocks[last].inside[begin] else []
    load = f"powered({load})" if power > 1 else load
    read = {tap for taps in blocks[last].taps for tap in taps}
    load = f"{' && '.join(checks)} ? {load} : ({ctype})(-1)" if checks else load
%>\
% if width == 1:
        const ${ctype} ${n}${begin} = ${load};
% else:
        const ${ctype} ${n}_${begin} = ${load};
% for i in (i for i in range(width) if begin + i in read):
        const ${"long" if n == "which" else e.value} ${n}${begin + i} = ${n}_${begin}${component(width, i)};
% endfor
% endif
</%def>

## An expression: the maximum of values, of which NaN are ignored.
<%def name="largest(values)">\
${values[0] if len(values) == 1 else f"fmax({values[0]}, {capture(largest, values[1:])})"}\
</%def>
