## cpu_channels: normalisation, or its gradient, of arrays whose channels are neighbours, on a CPU.
##
##            channel   0 .. V-1 | V .. 2V-1 | ...
##   place 0            x          x                  A work-item is a group, with a span of the places of a sample.  It
##   place 1            x          x                  folds U places at a time, for all channels: memory is read in its
##   ...                                              order, and the sums of each channel are in the workspace (caches)
##
## A sample is all places that share statistics: with batch normalisation there is one.  A row is a channel, or, if
## `grouped`, `row_channels` neighbouring ones, whose sums are added; if `weighted`, each times its channel's weight.
##
## launch: "whole" if a group has all places of a sample; else "fold" stores each group's sums, and in "map" each group
## adds those of all `parts` in order, and maps its places.
## Workspace of a group, in arrays of `channels` numbers: the sums of F fields, their totals, and workspace_NAME, the
## value NAME of each channel, for the names `in_workspace`.  With "whole", the sums are the totals.
## direct: inputs with a value for each channel that are read where they are stored, because there they are adjacent.
## near: operands with a value for each element.  summed: formulas of results that are sums of a channel.  span: places
## of a group.  NAME_at: the sample's first element of operand NAME.  at: a place; c: a channel.  Others: see _program.
<%namespace name="program" file="/normalize/_program.cl.mako"/>
<%namespace name="rows" file="/normalize/_channel_rows.cl.mako"/>
<%namespace name="values" file="/normalize/_channel_values.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
% for e in dict.fromkeys((*elems.values(), wide)):
${element.scalar(e)}
${element.vector_load(e, V, False) if V > 1 else ""}
${element.vector_store(e, V, False) if V > 1 else ""}
% endfor
% for number, phase in enumerate(phases):
% for width in dict.fromkeys((V, 1)):
${accumulator.define(phase.accumulator(f"acc{number}_t", real), width)}
% endfor
% endfor

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("normalize_cpu_channels")}
{
    const uint part = get_group_id(0) % parts, sample = get_group_id(0) / parts;
    const uint first = part * span, last = min(first + span, places);
    const ulong words = ${2 * F + len(in_workspace)} * (ulong)channels;
    __global ${real} *sums = partial + get_group_id(0) * words;
    __global ${real} *const totals = sums + ${F if launch == "map" else 0} * (ulong)channels;
% for name in in_workspace:
    __global ${real} *workspace_${name} = sums + ${2 * F + loop.index} * (ulong)channels;
    (void)workspace_${name};
% endfor
% for name in p.operands:
    __global ${"" if name in results else "const "}${elems[name].name}_t *${name}_at
        = ${name}_data + (${name}_offset + sample * ${name}_sample);
    (void)${name}_at;
% endfor
% for name in in_workspace:
% if name in p.operands:
${values.copied(name)}\
% endif
% endfor
% for number, phase in enumerate(phases):
% if launch != "map":
${folded(phase, f"acc{number}_t")}\
% endif
% if launch != "fold":
${rows.finish_rows(phase, f"acc{number}_t", phase is phases[-1])}\
% endif
% endfor
% if launch != "fold":
<%call expr="over_places([text for name, text in p.outputs if name in near])" args="width, tags">\
% for tag in tags:
<% named = {n: f"{n}{tag}" if n in near else n for n in p.inputs} %>\
% for name, text in p.outputs:
% if name in near:
            ${elems[name].name}_store${"" if width == 1 else width}(${values.place(name, tag)},
                ${program.module.typed(text.format(**named), real, width, width)});
% endif
% endfor
% endfor
</%call>\
% endif
}
## Fold the places to the sums of each channel.
<%def name="folded(phase, acc)">\
% for field, identity in phase.fields:
    for (uint c = 0; c < channels; ++c) sums[${loop.index} * (ulong)channels + c] = ${identity};
% endfor
<%call expr="over_places([phase.step([{n: '{' + n + '}' for n in p.inputs}])])" args="width, tags">\
            ${values.accumulator("s", phase, acc, width, "sums")}
<% step = phase.step([{n: f"{n}{tag}" if n in near else n for n in p.inputs} for tag in tags]) %>\
            ${program.module.typed(step, real, width, width)}
            ${values.stored("s", phase, width, "sums")}
</%call>\
</%def>

## Loops over U places at a time, then single ones, and in them over vectors of channels, then single ones.  The body
## of the caller follows the declarations of what `texts` read: {NAME} is an element of NAME, and NAME a value of its
## channel.
<%def name="over_places(texts)">\
<% text = " ".join(texts) %>\
    {
    uint at = first;
% for tags in (range(U), range(1)):
    for (; at + ${len(tags)}u <= last; at += ${len(tags)}u) {
        uint c = 0;
% for width in dict.fromkeys((V, 1)):
        for (; c + ${width}u <= channels; c += ${width}u) {
${values.declared(text, width)}\
% for tag in tags:
% for name in p.inputs:
% if name in near and "{" + name + "}" in text:
            const ${vector(real, width)} ${name}${tag}
                = ${elems[name].name}_load${"" if width == 1 else width}(${values.place(name, tag)});
% endif
% endfor
% endfor
${caller.body(width, tags)}\
        }
% endfor
    }
% endfor
    }
</%def>
