## Permute the rows of a right-hand side into the permuted numbering, or back, and convert its elements.
##
##   back false   x[k] = b[perm[k]]        back true   b[perm[k]] = x[k]        for rows k < n
##
## e, other  Elements of x and of b      size   work-items of a group, each for `run` adjacent elements of x
## b         of any strides              x      n x count, row-major
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
## An expression: v, of the Element source, as a value of the Element target.
<%def name="convert(source, target, v)">\
% if source.complex:
(${target.value})((${target.real})${v}.x, (${target.real})${v}.y)\
% elif target.complex:
(${target.value})((${target.real})${v}, 0)\
% else:
(${target.value})${v}\
% endif
</%def>
% for elem in dict.fromkeys((e, other)):
${element.scalar(elem)}
% endfor

__kernel ${group.of_size(size)}
void ${kernel("permute")}
{
    const long from = get_global_id(0) * run, end = from + run < n * count ? from + run : n * count;
    for (long at = from; at < end; at++) {
        __global ${other.name}_t *b_at = b + b_offset + perm[at / count] * b_row + at % count * b_col;
% if back:
        const ${e.value} v = x[x_offset + at];
        *b_at = ${convert(e, other, "v")};
% else:
        const ${other.value} v = *b_at;
        x[x_offset + at] = ${convert(other, e, "v")};
% endif
    }
}
