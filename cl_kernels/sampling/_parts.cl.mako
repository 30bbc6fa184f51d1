## Functions of all sampling kernels: the combination of the taps of an output.
##
## kind    one of problem.KINDS          e       the Element of values
## taps    for each axis that has a rule: the number of taps in this text; 0 for a loop that ends at a place of -1
## loops   the axes whose loops need the largest number of taps
## gaps    whether each axis with a rule has outputs that read nothing
## outer   the number of other axes      index   the C type of indices        names   the operands

## The declaration of a pointer to operand n.
<%def name="pointer(n, suffix='')">\
<% ctype = "long" if n in ("which", "indices") else f"{e.name}_t" %>\
__global ${"" if n in ("out", "indices") else "const "}${ctype} *${n}${suffix}\
</%def>

## Define the squares of elements and of vectors of `widths` elements, if squares are summed.
<%def name="define_squares(widths)">\
% for type in dict.fromkeys(vector(e.value, width) for width in widths if of_squares):
static inline ${type} __attribute__((overloadable)) squared(${type} x) { return x * x; }
% endfor
</%def>

## The result of an output whose taps have been combined.
<%def name="result(acc)">${f"sqrt({acc})" if of_squares else acc}</%def>

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

## Combine the value `v` with the accumulator `acc`.  weight: the factor of v in a sum; flat: the index of v in the
## plane, which becomes `found` where v is the largest value so far; squares: whether v may
## have to be squared.
<%def name="take(acc, v, flat='', found='', weight='', squares=True)">\
% if kind == "sum":
${acc} += ${f"{weight} * " if weight else ""}${f"squared({v})" if of_squares and squares else v};\
% elif kind == "copy":
${acc} = ${v};\
% elif kind == "max":
{ const ${type_of()} v = ${v}; ${acc} = ${larger("v", acc)} ? v : ${acc}; }\
% elif kind == "argmax":
{ const ${e.real} v = ${v}; const int more = ${larger("v", acc)} | (${found} < 0); ${acc} = more ? v : ${acc}; \
${found} = more ? (${index})(${flat}) : ${found}; }\
% endif
</%def>

<%def name="larger(v, acc)">\
${f"(({v} > {acc}) | ({v} != {v}))" if e.floating else f"{v} > {acc}"}\
</%def>
<%def name="type_of()">${vector(e.value, V)}</%def>
