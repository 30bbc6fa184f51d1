## gather: out[i, :] = weight[indices[i], :], and which index is no row (of zeros then).
##
##   item   | row 0: V V V | row 1: V V V | ...      a work-item of a GPU copies one vector of a row,
##   item   | rows_each whole rows        | ...      one of a CPU copies rows
##
## elem: the element type.  idx: that of indices.  V: elements of a vector.  step: whether the columns of weight have a
## stride.  G: work-items of a group.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="check" file="/embedding/_check.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% at = "column * weight_column" if step else "column" %>
% for e in {elem.name: elem, idx.name: idx}.values():
${element.scalar(e)}
% endfor
typedef ${elem.storage}${V if V > 1 else ""} piece_t;

__kernel ${group.of_size(G)}
void ${kernel("gather")}
{
    __global const ${idx.name}_t *indices = indices_in + indices_in_offset;
${check.report_first()}
    __global const ${elem.name}_t *weight = weight_in + weight_in_offset;
    __global ${elem.name}_t *out = out_in + out_in_offset;
    const long begin = (long)get_global_id(0) * pieces_each, end = min(pieces, begin + pieces_each);
    for (long piece = begin; piece < end; piece++) {
        const long i = piece / row_pieces, column = piece % row_pieces * ${V};
        const long row = (long)${idx.name}_load(indices + i);
        piece_t value = (piece_t)(0);
        if (row >= 0 && row < rows) value = *(__global const piece_t *)(weight + (row * weight_row + ${at}));
        *(__global piece_t *)(out + (i * columns + column)) = value;
    }
}
