## runs: on a CPU, out[o] = the combination of the taps of o (see _parts), for axes with rules ("ruled") and others
## ("plain").
##
##   row 0   | columns_each | columns_each | ...     a group is one work-item and has a part of a
##   row 1   |                                       row, or rows_each whole rows
##           | B B B ... B |                         B accumulators at a time, which loops of vectors update
##
## Columns are the plain axis along which the result is contiguous (with plain_columns), or the last ruled axis.  Rows
## are the places on all other axes.  For each tap of the other ruled axes, a loop goes along the columns.
##
## pitch: if not None, in columns regular_begin to regular_end - 1 a tap reads, for neighbouring columns, places of the
## source that are `pitch` apart.  blended: if not 0, the rows of a source that the taps of the other axes read are
## added first, each times its weight, to an array of at most `blended` columns; the taps of the columns then read this
## array.  B: as above.  unit: whether each operand has stride 1 along the columns.
##
## positions: how many places the ruled axes have among the rows; row = plain * positions + position, where plain is the
## flat index on the plain axes among the rows.  own: the flat index, in a plane, of column 0.  Others: see _parts.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>
<%namespace name="loops_of" file="/sampling/_loops.cl.mako"/>
<%namespace name="rows_of" file="/sampling/_rows.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    K = len(taps)
    across = K if plain_columns else K - 1  # how many of the ruled axes are among the rows
    copies = kind == "copy" and (plain_columns or taps[across] == 1)  # an element is one of a row, or the fill
    # Whole blocks of plain columns have constant loops, most of them of vectors: accumulators stay in registers.
    in_blocks = plain_columns and kind in ("sum", "max", "argmax")
    is_plain = e.floating and not e.complex and all(unit[n] for n in names)
    fits = kind != "argmax" or (e.real, index) == ("float", "int")  # comparisons: as wide as indices
    lanes = 16 if in_blocks and is_plain and fits else 1
    step = {n: "" if unit[n] else f" * {n}_column_step" if plain_columns else f" * {n}_step{across}" for n in names}
%>
${element.scalar(e)}
% if lanes > 1:
${element.vector_load(e, lanes, False)}
${element.vector_store(e, lanes, False)}
% endif
${parts.define_powers([1, lanes])}\

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("sampling")}
{
    const ${index} begin = get_group_id(0) % columns_parts * columns_each, end = min(columns, begin + columns_each);
    const ${index} first_row = get_group_id(0) / columns_parts * rows_each;
    const ${index} last_row = min(rows, first_row + rows_each);
% if blended:
${rows_of.read_columns(across)}\
% endif
    for (${index} row = first_row, stop; row < last_row; row = stop) {
        const ${index} plain = row / positions, origin = plain * positions;
        stop = min(last_row, origin + positions);
% for n in names:
        ${parts.pointer(n, "_plane")} = ${n}_data
            + (${n}_offset + ${axes.offset("outer", n, axes.digits("outer", outer, "plain"))});
% endfor
    for (${index} position = row - origin; position < stop - origin; position++) {
% for k in range(across):
        const ${index} o${k} = ${place(k)};
% endfor
% for n in names:
        ${parts.pointer(n)} = ${n}_plane\
${"".join(f" + o{k} * {n}_step{k}" for k in range(across)) if n not in sources else ""};
% endfor
% if routed:
        const long own = ${" + ".join([f"o{k} * flat{k}" for k in range(across)] or ["0"])};
% endif
% if copies:
${rows_of.copied(across, step)}\
% else:
% if blended:
        ${e.value} blended[${blended}];
        for (int j = read_begin; j < read_end; j++) blended[j - read_begin] = 0;
        const ${e.real} u_0 = 1;
${loops_of.nest(0, across, step)}\
% endif
% if pitch is not None:
        for (${index} b = begin, next; b < end; b = next) {
            next = min(b + ${B}, min(end, b < regular_begin ? regular_begin : b < regular_end ? regular_end : end));
            const int n = next - b;
${rows_of.block(across, step)}\
        }
% else:
        ${index} b = begin;
% if in_blocks:
        for (; b + ${B} <= end; b += ${B}) {
            enum { n = ${B} };
${rows_of.block(across, step, lanes)}\
        }
% endif
% if lanes > 1:
        for (; b < end && end - begin >= ${lanes}; b += ${lanes}) {
            enum { n = ${lanes} };
            b = min(b, end - n);  // the last vector may be computed twice
${rows_of.block(across, step, lanes)}\
        }
% endif
        for (; b < end; b += ${B}) {
            const int n = min((${index})${B}, end - b);
${rows_of.block(across, step)}\
        }
% endif
% endif
    }
    }
}

## The place of a row on ruled axis k.
<%def name="place(k)">\
<% slower = " * ".join(f"size{axis}" for axis in range(k + 1, across)) %>\
${f"position / ({slower})" if slower else "position"}${f" % size{k}" if k else ""}\
</%def>
