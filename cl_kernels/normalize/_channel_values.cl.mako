## A part of cpu_channels: values of channels c, c + 1 ... (`width` of them): sums, operands, and values of phases.
## In scope there: at, a place of the sample; NAME_at, the sample's first element of operand NAME; NAME_place,
## NAME_channel, its strides; workspace_NAME, an array in the workspace with the value NAME of each channel, for the
## names `in_workspace`; direct: names of operands whose values are read where they are stored; wide: the Element of the
## workspace.
<%!
import re

def reads(text, name):
    """Whether a text of a program reads a value."""
    return re.search(rf"(?<![.\w]){name}\b", text) is not None
%>

## The address of channel c of operand `name`, at place at + tag.
<%def name="place(name, tag)">\
${name}_at + ((at + ${tag}u) * ${name}_place + c)\
</%def>

## Store an operand's values of each channel in the workspace.
<%def name="copied(name)">\
<% load = f"{elems[name].name}_load" %>\
% if grouped and name in p.row_inputs:
    for (uint row = 0; row < rows; ++row) {
        const ${real} value = ${load}(${name}_at + row * ${name}_channel);
        for (uint k = 0; k < row_channels; ++k) workspace_${name}[row * row_channels + k] = value;
    }
% else:
    for (uint c = 0; c < channels; ++c) workspace_${name}[c] = ${load}(${name}_at + c * ${name}_channel);
% endif
</%def>

## An expression: the values `name` of channels c to c + width - 1.
<%def name="value(name, width)">\
<% e, array = (elems[name], f"{name}_at") if name in direct else (wide, f"workspace_{name}") %>\
${e.name}_load${"" if width == 1 else width}(${array} + c)\
</%def>

## Declare the values of channels that a text reads, except those that it declares.
<%def name="declared(text, width, own=())">\
% for name in (*direct, *in_workspace):
% if name not in own and reads(text, name):
            const ${vector(real, width)} ${name} = ${value(name, width)};
% endif
% endfor
</%def>

## Declare the accumulator `name` of channels c to c + width - 1, from an array of sums or totals, which has `channels`
## numbers of each field.
<%def name="accumulator(name, phase, acc, width, array)">\
${acc}${"" if width == 1 else width} ${name};
% for field, _ in phase.fields:
            ${name}.${field} = ${wide.name}_load${"" if width == 1 else width}(
                ${array} + (${loop.index} * (ulong)channels + c));
% endfor
</%def>

## Store the accumulator `name` of channels c to c + width - 1 in such an array.
<%def name="stored(name, phase, width, array)">\
% for field, _ in phase.fields:
            ${wide.name}_store${"" if width == 1 else width}(
                ${array} + (${loop.index} * (ulong)channels + c), ${name}.${field});
% endfor
</%def>
