## Functions of rows and cpu_rows: operands, their places, and the phases of a program.
##
##   kept axes      the number of a row, flattened; the last axis runs fastest
##   row axes       outer ones and an inner one of n elements: element j of a row is element i = j % n of the
##                  inner axis, at o = j / n of the outer ones
##
## p: portable_gpu.ops.normalize.row_program.RowProgram: phases, each of which folds a row to values that later ones and
## the map use; then the map of each element.  elems: Element by operand.  real: type of the arithmetic.  V: elements of
## a vector.
## spread: inputs that have one element for a whole vector.  kept, outer: numbers of axes.
## launch: "whole", or "fold" and "map" if groups share a row.  across: whether a vector has one element of each of V
## neighbouring rows.
<%!
def typed(text, real, width, row_width):
    """A program's C text with its words COUNT, TYPE (vectors of elements) and ROW (values of rows) replaced."""
    text = text.replace("COUNT", f"(({real})count)")
    return text.replace("TYPE", vector(real, width)).replace("ROW", vector(real, row_width))
%>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>

## Define the functions of elements and accumulators (acc<K>_t of phase K), for vectors of `widths` elements.
<%def name="define(widths, aligned)">
% for e in dict.fromkeys(elems.values()):
${element.scalar(e)}
% for width in widths:
% if width > 1 and any(elems[name] == e for name in p.element_names):
${element.vector_load(e, width, aligned)}
${element.vector_store(e, width, aligned)}
% endif
% endfor
% endfor
% for phase in phases:
<% acc = phase.accumulator(f"acc{loop.index}_t", real) %>\
% for width in [1 << k for k in range(max(widths).bit_length())]:
${accumulator.define(acc, width)}
% if width > 1:
${accumulator.halve(acc, width)}
% endif
% endfor
% endfor
</%def>

## Declare NAME_row for each operand: the pointer to the first element of a row.  A launch of parts of rows uses some of
## them only.
<%def name="begin_row(row, column='')">\
% for name in p.operands:
<% is_result = name in dict((*p.outputs, *p.row_outputs)) %>\
    __global ${"" if is_result else "const "}${elems[name].name}_t *${name}_row = ${name}_data + (${name}_offset
        + ${axes.offset("kept", name, axes.digits("kept", kept, row))}\
% if name in p.sums:
 + ${"get_group_id(0)" if target.is_cpu else "slot"} * (ulong)count\
% endif
);
    (void)${name}_row;
% endfor
</%def>

## The place of element j of a row: o and i.  A CPU has a loop over o, and j counts from the first element of o.
<%def name="place(j)">\
% if outer and not target.is_cpu:
    const uint o = (${j}) / n, i = (${j}) % n;
% else:
    const uint i = ${j};
% endif
</%def>

## Expressions, and a statement: the address of element (o, i) of an operand; its value, or that of `width` adjacent
## elements; the store of a value there.
<%def name="address(name)">\
<% begin = axes.offset("outer", name, axes.digits("outer", outer, "o")) + " + " if outer else "" %>\
${name}_row + (${begin}i * ${name}_stride)\
</%def>

<%def name="load(name, width)">\
<% e = elems[name].name %>\
% if width == 1:
${e}_load(${address(name)})\
% elif name in spread:
(${vector(real, width)})(${e}_load(${address(name)}))\
% else:
${e}_load${width}(${address(name)})\
% endif
</%def>

<%def name="store(name, width, value)">\
${elems[name].name}_store${"" if width == 1 else width}(${address(name)}, ${value});\
</%def>
