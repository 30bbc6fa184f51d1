## gather: out[i, :] = weight[indices[i], :].  For an index that is not a row the result is zeros, and the first one is
## reported.
##
##   GPU   | row 0: V V V | row 1: V V V | ...      a work-item copies U vectors, G apart, that are loaded before
##                                                  the first of them is stored
##   CPU   | pieces_each vectors | ...              a work-item copies adjacent vectors, row by row
##
## Launch: group 0 checks the indices (_check); the work starts with group 1.  pieces: vectors of out, row_pieces of a
## row.
##
## elem, idx: the element types of weight and of indices.  V: elements of a vector.  step: whether the stride of
## weight's columns is not 1.  index: C type of numbers of vectors.  G: work-items of a group.  U: see above; 0 on a
## CPU.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="check" file="/embedding/_check.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
% for e in {elem.name: elem, idx.name: idx}.values():
${element.scalar(e)}
% endfor
typedef ${elem.storage}${V if V > 1 else ""} piece_t;

__kernel ${group.of_size(G)}
void ${kernel("gather")}
{
    __global const ${idx.name}_t *indices = indices_data + indices_data_offset;
${check.report_first()}
    __global const ${elem.name}_t *weight = weight_data + weight_data_offset;
    __global ${elem.name}_t *out = out_data + out_data_offset;
    const ${index} block = get_group_id(0) - 1;
% if U:
    const ${index} begin = block * ${U * G} + get_local_id(0);
% for u in range(U):
${loaded(u, f"begin + {u * G}")}\
% endfor
% for u in range(U):
    if (piece${u} < pieces) ${stored(u)}
% endfor
% else:
<% at_source = f"k * {V}{' * weight_column' if step else ''}" %>\
    const ${index} begin = block * pieces_each, end = min(pieces, begin + pieces_each);
    for (${index} piece = begin, next; piece < end; piece = next) {
        const ${index} i = piece / row_pieces, first = piece - i * row_pieces;
        const ${index} last = min(row_pieces, first + end - piece);
        const long row = (long)${idx.name}_load(indices + i);
        __global ${elem.name}_t *target = out + (long)i * columns;
        next = piece + last - first;
        if (row >= 0 && row < rows) {
            __global const ${elem.name}_t *source = weight + row * weight_row;
            for (${index} k = first; k < last; k++)
                *(__global piece_t *)(target + k * ${V}) = *(__global const piece_t *)(source + ${at_source});
        } else {
            for (${index} k = first; k < last; k++) *(__global piece_t *)(target + k * ${V}) = (piece_t)(0);
        }
    }
% endif
}

## Declare vector u: its number, its row and column in out, and its value.
<%def name="loaded(u, number)">\
<% at = f"column{u} * weight_column" if step else f"column{u}" %>\
    const ${index} piece${u} = ${number}, i${u} = piece${u} / row_pieces, column${u} = piece${u} % row_pieces * ${V};
    const long row${u} = piece${u} < pieces ? (long)${idx.name}_load(indices + i${u}) : -1;
    piece_t value${u} = (piece_t)(0);
    if (row${u} >= 0 && row${u} < rows) {
        value${u} = *(__global const piece_t *)(weight + (row${u} * weight_row + ${at}));
    }
</%def>

## A statement that stores vector u.
<%def name="stored(u)">\
*(__global piece_t *)(out + ((long)i${u} * columns + column${u})) = value${u};\
</%def>
