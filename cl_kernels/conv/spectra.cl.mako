## spectra: products of spectra, o[i, l, f] = sum_j a[i, j, f] b[l, j, f] for each frequency f and group of channels.
##
##            f ─►              a work-item has TI x TL pairs (i, l) and V adjacent frequencies; those beyond the last
##   a[i, j]  |V|V|V|...        pair are computed and not stored, and planes of frequencies are multiples of V apart
##
## Numbers are complex, as pairs of `elem`; offsets and strides count numbers.  i is below `rows`, l below `columns`,
## and j below `depth`.  The bias of channel l is added to all points of a result by adding `points` times the bias to
## its frequency 0.  re{i}{l}, im{i}{l}: V results of the pair (i0 + i, l0 + l).  adds: whether products are added to o.
## Items: see _axes; an item is a group, a row and a column of tiles of pairs, and a block of V frequencies.  a_group,
## a_row, a_step: strides between groups, rows i, and numbers j.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, real = elem.name, elem.real
value = f"{real}{V}" if V > 1 else real
pairs = [(i, l) for i in range(TI) for l in range(TL)]
%>
${element.scalar(elem)}
typedef ${real}${2 * V} pairs_t __attribute__((aligned(${elem.itemsize})));

__kernel ${space.attribute()}
void ${kernel("spectra")}
{
## This opens the block of an item, which the last brace but one closes.
${space.items(I)}\
${space.coordinates("item", order, I)}\
    const ${I} f = block * ${V}, i0 = row * ${TI}, l0 = column * ${TL};
% for i in range(TI):
    __global const ${E}_t *a${i} = a + 2 * (a_offset + group * a_group + min(i0 + ${i}, rows - 1) * a_row + f);
% endfor
% for l in range(TL):
    __global const ${E}_t *b${l} = b + 2 * (b_offset + group * b_group + min(l0 + ${l}, columns - 1) * b_row + f);
% endfor
    __global ${E}_t *to = o + 2 * (o_offset + group * o_group + i0 * o_row + l0 * o_column + f);
% for i, l in pairs:
    ${value} re${i}${l} = 0, im${i}${l} = 0;
% endfor
    for (${I} j = 0; j < depth; j++) {
% for name, count in (("a", TI), ("b", TL)):
% for i in range(count):
        const pairs_t at_${name}${i} = *(__global const pairs_t *)(${name}${i} + 2 * j * ${name}_step);
        const ${value} ${name}_re${i} = at_${name}${i}.even, ${name}_im${i} = at_${name}${i}.odd;
% endfor
% endfor
% for i, l in pairs:
        re${i}${l} += a_re${i} * b_re${l};
        im${i}${l} += a_re${i} * b_im${l};
        re${i}${l} -= a_im${i} * b_im${l};
        im${i}${l} += a_im${i} * b_re${l};
% endfor
    }
% for i, l in pairs:
    if (i0 + ${i} < rows && l0 + ${l} < columns) {
        __global pairs_t *at = (__global pairs_t *)(to + 2 * (${i} * o_row + ${l} * o_column));
        pairs_t result;
        if (adds_bias && f == 0)
            re${i}${l}${".s0" if V > 1 else ""} += points * ${E}_load(bias + bias_offset
                + (group * columns + l0 + ${l}) * bias_step);
        result.even = re${i}${l};
        result.odd = im${i}${l};
        *at = adds ? *at + result : result;
    }
% endfor
    }
}
