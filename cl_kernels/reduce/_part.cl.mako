## The part of the input that a group of any reduction's kernel folds, and what it is told of it.
##
##   outer axes, flattened    0 | outer_begin ... | outer_end | ... | outer_count
##   inner axis               0 | begin ...       | end       | ... | n
##
## A part is so much of both; with `split` there are inner_parts of them along the inner axis, and
## the last group to finish folds what all have left in `partial`.
##
## r: Reduction.  kept, outer: numbers of axes.  Strides count elements.
<%!
def place(kept, name):
    """C expression of where the element of an array for result `row` lies."""
    return f"{name}_offset + {axes.offset('kept', kept, name, 'row')}"
%>

## Inputs, result, parts, extents and strides.  deal: how the groups share the results.  columns:
## whether strides along a last axis of the results come by themselves.
<%def name="arguments(deal, columns=False)">\
<%
    inputs = dict(zip(r.names, r.inputs))
    arrays = [*inputs, "out"]
    strides = axes.parameters("kept", kept, arrays) + axes.parameters("outer", outer, list(inputs))
    if columns:
        strides += ["long columns", *(f"long {n}_column" for n in arrays)]
    strides += [f"long {n}_stride" for n in inputs]
%>\
% for n, e in inputs.items():
    __global const ${e.name}_t *restrict ${n}_in, long ${n}_offset,
% endfor
    __global ${r.result.name}_t *restrict out, long out_offset,
% if split:
    volatile __global uint *restrict counters, volatile __global uint *restrict partial,
    uint inner_parts,
% endif
    ${deal}, long outer_count, long outer_span, long n, long span, long count,
    ${", ".join(strides)}\
</%def>

## The bounds of the part.
<%def name="bounds()">\
% if split:
    const long outer_begin = part / inner_parts * outer_span, begin = part % inner_parts * span;
% else:
    const long outer_begin = 0, begin = 0;
% endif
    const long outer_end = min(outer_count, outer_begin + outer_span), end = min(n, begin + span);
</%def>

## Declare where the row of input `n` begins at position o of the outer axes.  column: the first of
## several neighbouring rows, by its place on the last axis.
<%def name="inner_row(e, n, column='')">\
__global const ${e.name}_t *${n}_row = ${n}_in + (${place(kept, n)} + ${axes.offset("outer", outer, n, "o")})${f" + {column} * {n}_column" if column else ""};\
</%def>
