## dropout: out[i] = word(i) < threshold ? 0 : x[i] * scale, for i in C order of the shape.  threshold = p 2^32 and
## scale = 1 / (1 - p), where p is the probability of a zero; word(i) is a random number of 32 bits.
##
##   i      | 0 1 2 3 | 4 5 6 7 | ...     a block of Philox has the words of four elements in a row;
##   block  |    0    |    1    | ...     a work-item has blocks_each adjacent blocks, and their results
##
## word(i) depends on i, the seed and the stream only: any partition, any strides and any device give the same mask.
##
## elem: the element type.  outer: number of axes without the inner one.  plain: whether both arrays are C-ordered.
## in_place: whether the result replaces the input.  size: elements of the shape; row, column: of an element in arrays
## with strides, whose inner axis has `columns` elements.
## V: elements of a vector access (4, or 1 where addresses are not aligned).  G: work-items of a group.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="philox" file="/random/_philox.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% e = elem; names = ["out"] if in_place else ["x", "out"] %>
${element.scalar(e)}
% if V > 1:
${element.vector_load(e, 4, not target.is_cpu)}
${element.vector_store(e, 4, not target.is_cpu)}
% endif
${philox.define()}

__kernel ${group.of_size(G)}
void ${kernel("dropout")}
{
    const long blocks = (size + 3) / 4, begin = (long)get_global_id(0) * blocks_each;
    const long end = min(blocks, begin + blocks_each);
    __global ${e.name}_t *out = out_data + out_data_offset;
    __global const ${e.name}_t *x = ${"out" if in_place else "x_data + x_data_offset"};
    for (long block = begin; block < end; block++) {
        const uint4 words = PHILOX_block((ulong)block, stream, seed);
        const long first = block * 4;
% if V > 1:
        if (first + 4 <= size) {
            const ${e.real}4 scaled = ${e.name}_load4(x + first) * scale;
            ${e.name}_store4(out + first, (${e.real}4)(${", ".join(
                f"words.s{j} < threshold ? 0 : scaled.s{j}" for j in range(4))}));
            continue;
        }
% endif
% for j in range(4):
        if (first + ${j} < size) {
% if plain:
            const ${e.real} scaled = ${e.name}_load(x + first + ${j}) * scale;
            ${e.name}_store(out + first + ${j}, words.s${j} < threshold ? 0 : scaled);
% else:
            const long column = (first + ${j}) % columns;
% if outer:
            const long row = (first + ${j}) / columns;
% endif
            const ${e.real} scaled = ${e.name}_load(
                x + (column * ${names[0]}_stride
                    + ${axes.offset("outer", names[0], axes.digits("outer", outer, "row"))})) * scale;
            ${e.name}_store(out + (column * out_stride
                + ${axes.offset("outer", "out", axes.digits("outer", outer, "row"))}),
                words.s${j} < threshold ? 0 : scaled);
% endif
        }
% endfor
    }
}
