## rows: out[row, :] = sum of grad[i, :] over the positions i of the row among the indices, in increasing order.
##
##   item   | row 0: V V V | row 1: V V V | ...      a work-item sums one vector of a row over all positions;
##                                                   on a CPU it sums pieces_each vectors
##
## positions: see lists and joined: the head of each row's list, and at 2 * chunks * row_count + i the position after i.
## pieces: vectors of out, row_pieces of a row.  Rows without positions are 0.  Sums of 16-bit elements are in float.
##
## elem: the element type.  V: elements of a vector.  by_count: whether a sum is divided by the number of its positions
## (PyTorch's scale_grad_by_freq).  index: C type of numbers of vectors.  G: work-items of a group.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% suffix = V if V > 1 else "" %>
${element.scalar(elem)}
% if V > 1:
${element.vector_load(elem, V, True)}
${element.vector_store(elem, V, True)}
% endif

__kernel ${group.of_size(G)}
void ${kernel("rows")}
{
    __global const ${elem.name}_t *grad = grad_data + grad_data_offset;
    __global ${elem.name}_t *out = out_data + out_data_offset;
    __global const int *next = positions + 2 * chunks * row_count;
    const ${index} begin = (${index})get_global_id(0) * pieces_each, end = min(pieces, begin + pieces_each);
    for (${index} piece = begin; piece < end; piece++) {
        const long row = piece / row_pieces, column = piece % row_pieces * ${V};
        ${vector(elem.real, V)} total = 0;
% if by_count:
        uint occurrences = 0;
% endif
        for (long i = positions[row], behind; i >= 0; i = behind) {
            behind = next[i];  // in flight together with the elements
            ${"occurrences++, " if by_count else ""}total += ${elem.name}_load${suffix}(grad + (i * columns + column));
        }
% if by_count:
        if (occurrences > 1) total /= (${elem.real})occurrences;
% endif
        ${elem.name}_store${suffix}(out + (row * columns + column), total);
    }
}
