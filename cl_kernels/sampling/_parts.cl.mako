## Functions of all sampling kernels (pooling, interpolation, padding, and their gradients): the combination of the taps
## of an output.  On axis k, if it has a rule, output o reads the places of its taps t in the source x, from a table:
##
##   places<k>[t * size<k> + o]    the place of tap t; -1: o has no tap t and no later one      most<k>   the most taps
##   weights<k>[t * size<k> + o]   its weight, of kind "sum"
##
## Over several ruled axes an output has all combinations of taps.  A plane has all places of the ruled axes; flat<k> is
## the distance of neighbours along axis k in its flat index, NAME_step<k> that in operand NAME.
##
## kind    how taps are combined (ops/sampling/problem.py): "routed" and "placed" (`routed` is true) take those whose
##         element of the source `which` is `own`, the output's flat index; "picked" takes the one that which[o] names
## e       the Element of values         index   the C type of indices
## names   the operands: `sources` are read at the places of taps, the others are at the output's place
## taps    for each ruled axis: the number of taps in this text; 0 for a loop over t < most<k> that ends at -1
## gaps    whether each ruled axis has outputs that read nothing        outer   the number of axes without a rule

## The declaration of a pointer to operand n.
<%def name="pointer(n, suffix='')">\
<% ctype = "long" if n in ("which", "indices") else f"{e.name}_t" %>\
__global ${"" if n in ("out", "indices") else "const "}${ctype} *${n}${suffix}\
</%def>

## Define the powers of absolute values of elements and of vectors of `widths` elements, if these are summed.
<%def name="define_powers(widths)">\
% for type in dict.fromkeys(vector(e.value, width) for width in widths if power > 1):
<% base = "ABS(x)" if power % 2 else "x" %>\
static inline ${type} __attribute__((overloadable)) powered(${type} x) { return ${" * ".join([base] * power)}; }
% endfor
</%def>

## The result of an output whose taps have been combined.
<%def name="result(acc)">${f"sqrt({acc})" if power == 2 else acc}</%def>

## The value of an output that reads nothing.  lowest: the least value of the type.  fill: an argument.
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
## plane, which becomes `found` where v is the largest value so far; powers: whether v is an element of x, not a sum of
## powers; lanes: the elements of v, if not V.
<%def name="take(acc, v, flat='', found='', weight='', powers=True, lanes=0)">\
% if kind == "sum":
${acc} += ${f"{weight} * " if weight else ""}${f"powered({v})" if power > 1 and powers else v};\
% elif kind == "copy":
${acc} = ${v};\
% elif kind == "max":
{ const ${vector(e.value, lanes or V)} v = ${v}; ${acc} = ${larger("v", acc)} ? v : ${acc}; }\
% elif kind == "argmax":
<% of_value, of_test, of_index = (vector(ctype, lanes or V) for ctype in (e.real, "int", index)) %>\
{ const ${of_value} v = ${v}; const ${of_test} more = ${larger("v", acc)} | (${found} < 0); \
${acc} = more ? v : ${acc}; ${found} = more ? (${of_index})(${flat}) : ${found}; }\
% endif
</%def>

## An expression: whether v replaces the largest value so far, acc; a NaN does.
<%def name="larger(v, acc)">\
${f"(({v} > {acc}) | ({v} != {v}))" if e.floating else f"{v} > {acc}"}\
</%def>
## The C type of a value, or of a vector of them.
<%def name="type_of()">${vector(e.value, V)}</%def>
