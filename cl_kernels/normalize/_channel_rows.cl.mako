## Defs of cpu_channels: the values of rows are computed from the sums of channels.  A row is one channel or, if
## `grouped`, `row_channels` adjacent ones.  In scope there: part, of `parts` of a sample; sums, totals: arrays of
## `channels` numbers in the workspace, one for each field of the accumulator; workspace_NAME: an array with the value
## NAME of each channel; NAME_at, the sample's first element of operand NAME, and NAME_channel, its stride between
## channels.  p, elems, real, V: see _program.
<%namespace name="program" file="/normalize/_program.cl.mako"/>
<%namespace name="values" file="/normalize/_channel_values.cl.mako"/>

## The end of a phase: its sums are added over all parts; the values that later phases and the map read are computed
## from these totals; after the last phase the results with one value for each row are stored.  acc: the type of the
## phase's accumulator.  s: the accumulator of a row, or, for `width` rows side by side, a vector of accumulators.
<%def name="finish_rows(phase, acc, is_last)">\
<% texts = [text for name, text in p.row_outputs] if is_last else [] %>\
% if launch == "map":
<%call expr="channels_of()" args="width">\
<% type = acc if width == 1 else f"{acc}{width}" %>\
            ${type} total = ${type}_identity();
            for (uint other_part = 0; other_part < parts; ++other_part) {
                __global const ${real} *others = partial + (sample * parts + other_part) * words;
                ${values.accumulator("other", phase, acc, width, "others")}
                total = ${type}_combine(total, other);
            }
            ${values.stored("total", phase, width, "totals")}
</%call>\
% endif
% if summed and is_last:
    if (part == 0) {
<%call expr="channels_of()" args="width">\
            ${values.accumulator("s", phase, acc, width, "totals")}
${values.declared(" ".join(summed.values()), width)}\
% for name, text in summed.items():
            ${elems[name].name}_store${"" if width == 1 else width}(${name}_at + c, ${text});
% endfor
</%call>\
    }
% endif
<% text = " ".join((phase.finish, *texts)) %>\
% if grouped:
    for (uint row = 0; row < rows; ++row) {
            ${acc} s = ${acc}_identity();
            for (uint c = row * row_channels; c < (row + 1) * row_channels; ++c) {
                ${values.accumulator("other", phase, acc, 1, "totals")}
${scaled("other", phase, 1)}\
                s = ${acc}_combine(s, other);
            }
% for name in in_workspace:
% if name not in phase.values and values.module.reads(text, name):
            const ${real} ${name} = workspace_${name}[row * row_channels];
% endif
% endfor
${store_rows(phase, 1, is_last)}\
    }
% else:
<%call expr="channels_of()" args="width">\
            ${values.accumulator("s", phase, acc, width, "totals")}
${scaled("s", phase, width)}\
${values.declared(text, width, phase.values)}\
${store_rows(phase, width, is_last)}\
</%call>\
% endif
</%def>

## A loop over channels c, by vectors and then one by one.  width: channels at a time, given to the body.
<%def name="channels_of()">\
    {
        uint c = 0;
% for width in dict.fromkeys((V, 1)):
        for (; c + ${width}u <= channels; c += ${width}u) {
${caller.body(width)}\
        }
% endfor
    }
</%def>

## Multiply the sums (the accumulator `name`) of channels c, c + 1 ... by their weights.
<%def name="scaled(name, phase, width)">\
% if weighted:
            { const ${vector(real, width)} weight = ${values.value("w", width)};
% for field, _ in phase.fields:
            ${name}.${field} *= weight;
% endfor
            }
% endif
</%def>

## Declare the values of `width` rows side by side, by the text phase.finish, and store them.
<%def name="store_rows(phase, width, is_last)">\
            ${program.module.typed(phase.finish, real, width, width)}
% for name in phase.values:
% if name in in_workspace and grouped:
            for (uint c = row * row_channels; c < (row + 1) * row_channels; ++c) workspace_${name}[c] = ${name};
% elif name in in_workspace:
            ${wide.name}_store${"" if width == 1 else width}(workspace_${name} + c, ${name});
% endif
% endfor
% if is_last and p.row_outputs:
            if (part == 0) {
% for name in p.updated:
                const ${vector(real, width)} old_${name} = ${row_values(name, width)};
% endfor
% for name, text in p.row_outputs:
                { const ${vector(real, width)} value = ${program.module.typed(text, real, width, width)};
% for k in range(width):
                ${elems[name].name}_store(${value_address(name, k)}, value${component(width, k)});
% endfor
                }
% endfor
            }
% endif
</%def>

## Expressions: the address of operand `name`'s value for row k of those side by side; the vector of all these values.
<%def name="value_address(name, k)">\
${name}_at + (${"row" if grouped else f"c + {k}u"}) * ${name}_channel\
</%def>

<%def name="row_values(name, width)">\
<% loads = [f"{elems[name].name}_load({capture(value_address, name, k)})" for k in range(width)] %>\
${loads[0] if width == 1 else f"({vector(real, width)})({', '.join(loads)})"}\
</%def>
