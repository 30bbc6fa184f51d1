## weights: Winograd's transform of sums over tiles to the gradient of filters of 3 x 3 (see _winograd), f[o, i] =
## G' u[:, o, i] G.  The index k counts the 16 sums of a pair of channels; o and i are as in conv/winograd_filters.
## Arguments: see _axes and winograd_filters.
##
## A work-item computes `items_each` items of `wide` adjacent channels i.
##
## wide: channels i at a time, adjacent in u.  adjacent: whether they are adjacent in f.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="winograd" file="/conv/_winograd.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E = elem.name
value, suffix = (f"{elem.real}{wide}", wide) if wide > 1 else (elem.real, "")
%>
${element.scalar(elem)}
% if wide > 1:
${element.vector_load(elem, wide, False)}
${element.vector_store(elem, wide, False)}
% endif

__kernel ${space.attribute()}
void ${kernel("weights")}
{
## This opens the block of an item, which the last brace but one closes.
${space.items(I)}\
    const ${I} o = item / blocks, i = min(item % blocks * ${wide}, inners - ${wide}), group = o / outers;
    __global const ${E}_t *from = u + u_offset + o * inners + i;
    __global ${E}_t *w = f + f_offset + group * f_group + (o - group * outers) * f_outer + i * f_inner;
% for k in range(16):
    const ${value} u${k // 4}${k % 4} = ${E}_load${suffix}(from + ${k} * u_step);
% endfor
${winograd.both_sides(winograd.of_sums, "u", "w", 4, 3, value)}\
% for a, b in [(a, b) for a in range(3) for b in range(3)]:
% if adjacent or wide == 1:
    ${E}_store${suffix}(w + ${a} * f_axis1 + ${b} * f_axis2, w${a}${b});
% else:
% for j in range(wide):
    ${E}_store(w + ${a} * f_axis1 + ${b} * f_axis2 + ${j} * f_inner, w${a}${b}.s${"0123456789abcdef"[j]});
% endfor
% endif
% endfor
    }
}
