## finish: the epilogue of a convolution as a pass over its result: y = epilogue(y), in place.
##
##   row 0   | columns | columns | ...     an item has `columns` elements of a row along the last axis;
##   row 1   | ...                         a row is a position on the `outer` other axes
##
## elem, I         the Element of y; the C type of indices       finish   the epilogue (codegen.epilogue.Finish)
## names, outer    y and the arrays of the epilogue; the number of other axes
## known_strides   the strides along a row that are 0 or 1, by the array's name; they replace arguments of the kernel
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% E = elem.name %>
% for each in dict.fromkeys((elem, *(extra.elem for extra in finish.extras))):
${element.scalar(each)}
% endfor
${epilogue.values(finish.compute)}
${epilogue.define(finish)}

__kernel ${space.attribute()}
void ${kernel("finish")}
{
    const ${I} item = get_global_id(0);
    if (item >= items) return;
    const ${I} parts = (size + columns - 1) / columns;
% if outer:
    const ${I} outer_row = item / parts;
% endif
    const ${I} begin = item % parts * columns, end = min(begin + columns, size);
% for name in names:
    ${name} += ${name}_offset + ${axes.offset("outer", name, axes.digits("outer", outer, "outer_row"))};
% endfor
% for name, step in known_strides.items():
    { const long ${name}_row = ${step};  // hides the argument; the block ends with the loop
% endfor
    for (${I} row = begin; row < end; row++)
        ${E}_store(y + row * y_row, EPILOGUE(${E}_load(y + row * y_row), row, 0));
    ${"}" * len(known_strides)}
}
