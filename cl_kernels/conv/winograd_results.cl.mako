## results: 2 x 2 results from Winograd's products (see _winograd), t[n, channel, tile] = bias[channel] +
## A' m[:, channel, place] A.  Arguments: see _axes.
##
## Items, and the coordinates of tiles, are those of conv/winograd_tiles: image n, `wide` channels, row of tiles, and a
## part of `count` tiles of the row.  m_step, m_channel, m_place: strides of m along k, channels and places.
##
## T         tiles at a time, adjacent in m                  wide   channels at a time, adjacent in m and t
## unit      whether columns of t are adjacent               finish   the epilogue, whose rows are columns of t, or None
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="winograd" file="/conv/_winograd.cl.mako"/>
<%namespace name="last_step" file="/conv/_epilogue.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, real, width = elem.name, elem.real, max(T, wide)
value = f"{real}{width}" if width > 1 else real
applied = last_step.module.applied
load, store = (f"{E}_{name}{width if width > 1 else ''}" for name in ("load", "store"))
%>
${element.scalar(elem)}
% if width > 1:
${element.vector_load(elem, width, False)}
${element.vector_store(elem, width, False)}
% endif
% if T > 1:
${element.vector_load(elem, 2 * T, False)}
${element.vector_store(elem, 2 * T, False)}
% endif
${last_step.define(elem, finish)}\

__kernel ${space.attribute()}
void ${kernel("results")}
{
## This opens the block of an item, which the last brace but one closes.
${space.items(I)}\
${space.coordinates("item", order, I)}\
    const ${I} c = min(channel * ${wide}, channels - ${wide}), begin = min(part * count, columns - count);
    // The last part of a row of tiles begins earlier, so that it has `count` tiles as well.
    __global const ${E}_t *from = m + m_offset + c * m_channel + ((n * rows + row) * columns + begin) * m_place;
    __global ${E}_t *image = t + t_offset + n * t_batch + c * t_channel + 2 * row * t_axis1;
${last_step.image(finish, "n", "c", "0")}\
    ${value} start = (${value})(0);
    if (adds_bias)
% if wide > 1:
        start = (${value})(${", ".join(f"{E}_load(bias + bias_offset + (c + {j}) * bias_step)" for j in range(wide))});
% else:
        start = (${value})(${E}_load(bias + bias_offset + c * bias_step));
% endif
    for (${I} next = 0; next < count; next += ${T}) {
        const ${I} q = min(next, count - ${T}), left = 2 * (begin + q);
% for k in range(16):
        const ${value} m${k // 4}${k % 4} = ${load}(from + ${k} * m_step + q * m_place);
% endfor
${winograd.both_sides(winograd.of_products, "m", "y", 4, 2, value)}\
% for i in range(2):
        if (2 * row + ${i} < t1_size) {
            __global ${E}_t *to = image + ${i} * t_axis1 + left * t_axis2;
${last_step.line(finish, f"(2 * row + {i})")}\
% if T > 1:
            ${real}${2 * T} pairs;
            pairs.even = y${i}0 + start;
            pairs.odd = y${i}1 + start;
% if finish:
            pairs = ${applied(finish, "pairs", 2 * T, lambda k: (f"min(left + {k}, t2_size - 1)", 0))};
% endif
% if unit:
            if (left + ${2 * T} <= t2_size)
                ${E}_store${2 * T}(to, pairs);
            else
% endif
            {
% for k in range(2 * T):
                if (left + ${k} < t2_size) ${E}_store(to + ${k} * t_axis2, pairs.s${"0123456789abcdef"[k]});
% endfor
            }
% else:
% for j, condition in enumerate(("", "if (left + 1 < t2_size) ")):
            ${condition}${store}(to${" + t_axis2" * j},
                ${applied(finish, f"y{i}{j} + start", wide, lambda k: (f"left + {j}", k))});
% endfor
% endif
        }
% endfor
    }
    }
}
