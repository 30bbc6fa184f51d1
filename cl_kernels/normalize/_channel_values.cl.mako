## Values of channels c, c + 1 ... of cpu_channels: numbers, sums, and operands.  See cpu_channels.
<%!
import re

def reads(text, name):
    """Whether a text of a program reads a value."""
    return re.search(rf"(?<![.\w]){name}\b", text) is not None
%>

## The address of channel c of operand `name`, at a place.
<%def name="place(name, tag)">\
${name}_at + ((at + ${tag}u) * ${name}_place + c)\
</%def>

## Store an operand's values of each channel in the workspace.
<%def name="copied(name)">\
<% load = f"{elems[name].name}_load" %>\
% if grouped and name in p.row_inputs:
    for (uint row = 0; row < rows; ++row) {
        const ${real} value = ${load}(${name}_at + row * ${name}_channel);
        for (uint q = 0; q < each; ++q) numbers_${name}[row * each + q] = value;
    }
% else:
    for (uint c = 0; c < channels; ++c) numbers_${name}[c] = ${load}(${name}_at + c * ${name}_channel);
% endif
</%def>

## The values of some channels.
<%def name="value(name, width)">\
<% e, array = (elems[name], f"{name}_at") if name in direct else (wide, f"numbers_{name}") %>\
${e.name}_load${"" if width == 1 else width}(${array} + c)\
</%def>

## Declare the values of channels that a text reads, except those that it declares.
<%def name="declared(text, width, own=())">\
% for name in (*direct, *numbers):
% if name not in own and reads(text, name):
            const ${vector(real, width)} ${name} = ${value(name, width)};
% endif
% endfor
</%def>

## Declare an accumulator of some channels, from the sums or the totals.
<%def name="accumulator(name, phase, acc, width, array)">\
${acc}${"" if width == 1 else width} ${name};
% for field, _ in phase.fields:
            ${name}.${field} = ${wide.name}_load${"" if width == 1 else width}(
                ${array} + (${loop.index} * (ulong)channels + c));
% endfor
</%def>

## Store an accumulator of some channels.
<%def name="stored(name, phase, width, array)">\
% for field, _ in phase.fields:
            ${wide.name}_store${"" if width == 1 else width}(
                ${array} + (${loop.index} * (ulong)channels + c), ${name}.${field});
% endfor
</%def>
