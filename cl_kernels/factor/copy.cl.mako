## copy: on a GPU, copy a stack of matrices from any strides to any others, or their lower triangles, with zeros above
## the diagonals.
##
## A group of `size` work-items copies `lines` lines of `size` elements, which are neighbours in the target.  A matrix
## has `bands` bands of `lines` lines, and a line `pieces` pieces of `size`: bands * pieces groups for each matrix.
## length, count: elements of a line, and lines, of a matrix.
##
##   group   (matrix * bands + band of the matrix) * pieces + piece of the line
##
## source    the Operand that is read     triangle   whether elements above the diagonal become zeros
## by_rows   whether lines are rows        rank       batch axes
## inverse   0: a copy; else the start of an inverse by halves: blocks of `inverse` columns along the diagonal become
##           unit matrices, elements above them zeros, and elements below them are negated
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e = source.elem
fast, slow = ("col", "row") if by_rows else ("row", "col")
%>
${element.scalar(e)}

__kernel UNBOUND_GROUP(${size})
void ${kernel("copy")}
{
    const long group = get_group_id(0), band = group / pieces;
    const long ${fast} = group % pieces * ${size} + get_local_id(0), first = band % bands * ${lines}l;
    if (${fast} >= length) return;
${operands.locate(["from", "to"], rank, "band / bands")}
    for (long ${slow} = first; ${slow} < min(first + ${lines}, count); ++${slow}) {
        ${e.value} v = (${e.value})(0);
% if inverse:
        if (col == row) v${".x" if e.complex else ""} = 1;
        else if (col / ${inverse} < row / ${inverse}) v = -${e.name}_load(from + row * from_row + col * from_col);
% else:
        ${"if (col <= row) " if triangle else ""}v = ${e.name}_load(from + row * from_row + col * from_col);
% endif
        ${e.name}_store(to + row * to_row + col * to_col, v);
    }
}
