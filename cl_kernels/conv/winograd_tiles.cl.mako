## tiles: Winograd's transform of the tiles d of images, 4 x 4 elements each (see _winograd), v[k, channel, place] =
## (B' d B)[k].  The index k counts the 16 elements of a transformed tile.  Arguments: see _axes.
##
##        ┌───────┐       tiles are 2 apart and overlap by 2; place: the number of a tile, by image, row and column;
##        │ d ┌───┼───┐   elements outside of an image are 0
##        └───┼───┘   │
##            └───────┘
##
## With extent 2, of the gradient of y: v = A d A' of tiles of 2 x 2 elements, which do not overlap.
##
## On a GPU a work-item transforms one tile of a channel.  On a CPU it transforms `items_each` items.  An item is
## `count` adjacent tiles of a channel, T at a time; or one tile of `wide` adjacent channels.
##
## rows, columns: tiles of an image.  before1, before2: zeros in front of it.  v_step, v_channel, v_place: strides of v
## along k, channels and places.  near, far: columns 0 and 1, and 2 and 3, of T tiles.
## T         tiles at a time, adjacent in v       wide    channels at a time, adjacent in s and v
## block     the maximum of `count`               extent  rows and columns of a tile: 4 or 2
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="winograd" file="/conv/_winograd.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, real, width = elem.name, elem.real, max(T, wide)
value = f"{real}{width}" if width > 1 else real
beyond = extent - 2  # columns beyond the pairs of `count` tiles
%>
${element.scalar(elem)}
% if width > 1:
${element.vector_load(elem, width, False)}
${element.vector_store(elem, width, False)}
% endif
% if T > 1:
typedef ${real}${2 * T} pairs_t __attribute__((aligned(${elem.itemsize})));
% endif

__kernel ${space.attribute()}
void ${kernel("tiles")}
{
## This opens the block of an item, which the last brace but one closes.
${space.items(I)}\
${space.coordinates("item", order, I)}\
    const ${I} c = min(channel * ${wide}, channels - ${wide}), begin = min(part * count, columns - count);
    // The last part of a row of tiles begins earlier, so that it has `count` tiles as well.
    __global const ${E}_t *image = s + s_offset + n * s_batch + c * s_channel;
    __global ${E}_t *to = v + v_offset + c * v_channel + ((n * rows + row) * columns + begin) * v_place;
    const ${I} top = 2 * row - before1, left = 2 * begin - before2;
% if T > 1:
    ${real} line[${extent}][${2 * block + beyond}];
    for (int r = 0; r < ${extent}; r++) {  // rows of the tiles
        const bool inside = top + r >= 0 && top + r < s1_size;
        const ${I} end = 2 * count + ${beyond}, first = inside ? min(max(-left, (${I})0), end) : end;
        const ${I} last = inside ? max(first, min(s2_size - left, end)) : end;
        __global const ${E}_t *from = image + (top + r) * s_axis1 + left * s_axis2;
        for (${I} at = 0; at < first; at++) line[r][at] = 0;
        for (${I} at = first; at < last; at++) line[r][at] = ${E}_load(from + at * s_axis2);
        for (${I} at = last; at < end; at++) line[r][at] = 0;
    }
    for (${I} next = 0; next < count; next += ${T}) {
        const ${I} q = min(next, count - ${T});
% for i in range(extent):
        const pairs_t near${i} = *(const pairs_t *)(line[${i}] + 2 * q);
        const ${value} d${i}0 = near${i}.even, d${i}1 = near${i}.odd;
% if extent == 4:
        const pairs_t far${i} = *(const pairs_t *)(line[${i}] + 2 * q + 2);
        const ${value} d${i}2 = far${i}.even, d${i}3 = far${i}.odd;
% endif
% endfor
% else:
    {
        const ${I} q = 0;
% for i, j in [(i, j) for i in range(extent) for j in range(extent)]:
        const ${value} d${i}${j} = top + ${i} >= 0 && top + ${i} < s1_size && left + ${j} >= 0 && left + ${j} < s2_size
            ? ${E}_load${wide if wide > 1 else ""}(image + (top + ${i}) * s_axis1 + (left + ${j}) * s_axis2)
            : (${value})(0);
% endfor
% endif
${winograd.both_sides(winograd.of_tile if extent == 4 else winograd.of_gradient, "d", "v", extent, 4, value)}\
% for k in range(16):
        ${E}_store${width if width > 1 else ""}(to + ${k} * v_step + q * v_place, v${k // 4}${k % 4});
% endfor
    }
    }
}
