## The part of the input that a group of a reduction kernel folds.
##
##   outer axes, flattened    0 | outer_begin ... | outer_end | ... | outer_count
##   inner axis               0 | begin ...       | end       | ... | n
##
## A part is a range of each.  With `split` there are inner_parts parts along the inner axis, and the last
## group to finish folds the partial results of all, in `partial`.
##
## r: Reduction.  result_axes, outer: numbers of the axes of results, and of the reduced ones but the inner one; o: a
## position on these; n: elements of the inner axis.  Strides count elements.
<%!
def place(result_axes, name, row="row"):
    """The C expression for the offset of an array's element for result `row`."""
    return f"{name}_offset + {axes.offset('result', name, axes.digits('result', result_axes, row))}"
%>

## Declare the bounds of the part.
<%def name="bounds()">\
% if split:
    const long outer_begin = part / inner_parts * outer_span, begin = part % inner_parts * span;
% else:
    const long outer_begin = 0, begin = 0;
% endif
    const long outer_end = min(outer_count, outer_begin + outer_span), end = min(n, begin + span);
</%def>

## Declare the start of the row of input `n` at position o of the outer axes.  column: the place on the
## last axis of the first of several neighbouring rows.
<%def name="inner_row(e, n, column='')">\
__global const ${e.name}_t *${n}_row = ${n}_data + (${place(result_axes, n)}
    + ${axes.offset("outer", n, axes.digits("outer", outer, "o"))})${f" + {column} * {n}_column" if column else ""};\
</%def>
