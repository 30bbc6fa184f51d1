## Common to the sampling kernels: what an output makes of its taps.
##
## kind: of problem.KINDS.  e: Element of values.  taps: of each ruled axis, the number of taps in this text; 0: a loop
## until a place is -1.  loops: axes whose loops need the largest number of taps.  gaps: whether each ruled axis has
## outputs that read nothing.  outer: number of plain axes.  index: C type of indices.  names: operands.
## The declaration of a pointer to operand n.
<%def name="pointer(n, suffix='')">\
<% ctype = "long" if n in ("which", "indices") else f"{e.name}_t" %>\
__global ${"" if n in ("out", "indices") else "const "}${ctype} *${n}${suffix}\
</%def>

## The value of an output that reads nothing.
<%def name="nothing()">\
% if kind == "copy":
${f"({e.value})(fill_re, fill_im)" if e.complex else "fill"}\
% elif kind in ("max", "argmax"):
${f"({e.value})({lowest})" if e.floating else lowest}\
% else:
0\
% endif
</%def>

## Take value `v`, of C type `type`, into accumulator `acc`; `flat`: its index in the plane; `w`: its weight.
<%def name="take(acc, v, flat='', found='', weight='')">\
% if kind == "sum":
${acc} += ${f"{weight} * " if weight else ""}${v};\
% elif kind == "copy":
${acc} = ${v};\
% elif kind == "max":
{ const ${type_of()} v = ${v}; ${acc} = ${larger("v", acc)} ? v : ${acc}; }\
% elif kind == "argmax":
{ const ${e.real} v = ${v}; const int more = ${larger("v", acc)}; ${acc} = more ? v : ${acc}; \
${found} = more ? (${index})(${flat}) : ${found}; }\
% endif
</%def>

<%def name="larger(v, acc)">\
${f"(({v} > {acc}) | ({v} != {v}))" if e.floating else f"{v} > {acc}"}\
</%def>
<%def name="type_of()">${vector(e.value, V)}</%def>
