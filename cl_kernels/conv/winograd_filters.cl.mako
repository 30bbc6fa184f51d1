## filters: Winograd's transform of filters of 3 x 3 (see _winograd), u[k, o, i] = (G w[o, i] G')[k].  The index k
## counts the 16 elements of a transformed filter; o is a channel of the result t and i one of the source s, or on a CPU
## the reverse, if weights of adjacent channels of t are nearer in memory than those of s.  Arguments:
## see _axes.
##
## On a GPU a work-item transforms the filter of one pair (o, i) of channels.  On a CPU it transforms `items_each` items
## of `wide` adjacent channels i.
##
## wide: channels i at a time, adjacent in u.  blocks: blocks of them.  outers, inners: channels o and i of a group.
## f_outer, f_inner: their strides.  adjacent: whether the channels of an item are adjacent in f.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="winograd" file="/conv/_winograd.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E = elem.name
value, suffix = (f"{elem.real}{wide}", wide) if wide > 1 else (elem.real, "")

def weight(a, b):
    if adjacent: return f"{E}_load{wide}(w + {a} * f_axis1 + {b} * f_axis2)"
    places = [f"w + {a} * f_axis1 + {b} * f_axis2 + {j} * f_inner" for j in range(wide)]
    return f"({value})({', '.join(f'{E}_load({at})' for at in places)})"
%>
${element.scalar(elem)}
% if wide > 1:
${element.vector_load(elem, wide, False)}
${element.vector_store(elem, wide, False)}
% endif

__kernel ${space.attribute()}
void ${kernel("filters")}
{
## This opens the block of an item, which the last brace but one closes.
${space.items(I)}\
    const ${I} o = item / blocks, i = min(item % blocks * ${wide}, inners - ${wide}), group = o / outers;
    __global const ${E}_t *w = f + f_offset + group * f_group + (o - group * outers) * f_outer + i * f_inner;
    __global ${E}_t *to = u + u_offset + o * inners + i;
% for a in range(3):
    const ${value} ${", ".join(f"w{a}{b} = {weight(a, b)}" for b in range(3))};
% endfor
${winograd.both_sides(winograd.of_filter, "w", "u", 3, 4, value)}\
% for k in range(16):
    ${E}_store${suffix}(to + ${k} * u_step, u${k // 4}${k % 4});
% endfor
    }
}
