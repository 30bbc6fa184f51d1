## scatter: on a CPU, the sums of sources at the places of a plane that indices name (the gradient of max pooling):
## out = 0, then out[which[s]] += x[s] for all sources s in the order of the plane; or = x[s], of kind "placed".
##
##   plane 0 | zeros, then row 0 | row 1 | ... of sources     a group is one work-item and has planes_each
##   plane 1 |         B | B | ... of a row at a time         whole planes, or columns_each columns of a plane
##
## Taps are combined along ruled axes (_parts); the others are plain axes.  Columns are the plain axis along which the
## result is contiguous (line is True), or the last ruled axis.  An index that is not in the window of its source (the
## places that may have that source as a tap) is ignored: it is compared with the places of the window.
##
## unit: whether each operand has stride 1 along the columns.  places<k>[t * size<k> + o]: place t of the window of
## source o along axis k, or -1; size<k>: the sources; most<k>: the most places of a window.  The rows t of the table of
## the last axis are padded to multiples of 16, because 16 sources are tested at a time.
## column: for each of 16 indices, its place along the last axis if it has one in the windows of the other axes, or -2,
## which differs from the table's -1.
## sums: whether a plane is added in float32, in workspace, and stored when it is complete (16-bit floats).
## plane: the places of a plane; width: those of its last axis.  out_flat: the distance in the result of neighbours of
## the plane.  B, other parameters: see runs and _parts.  o<k>, t<k>, p<k>: source, tap and place on axis k; b + j: the
## column of source j of B.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    K = len(taps)
    across = K if line else K - 1  # the ruled axes among the rows
    step = {n: "" if unit[n] else f" * {n}_line" if line else f" * {n}_step{across}" for n in names}
    convert = "convert_long16" if index == "long" else ""
    column = f" + (b + j){step['out']}" if line else ""
    add = f"{e.name}_store(to, {'v' if kind == 'placed' else f'{e.name}_load(to) + v'})"
%>
${element.scalar(e)}
% if sums:
${element.vector_load(e, 16, False)}
${element.vector_store(e, 16, False)}
% endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("sampling")}
{
    const ${index} begin = get_group_id(0) % columns_parts * columns_each, end = min(columns, begin + columns_each);
    const ${index} first = get_group_id(0) / columns_parts * planes_each, last = min(planes, first + planes_each);
    ${index} at[${B}] __attribute__((aligned(128)));  // the places of sources in the result
    for (int j = 0; j < ${B}; j++) at[j] = -1;
% if sums:
    sums += get_group_id(0) * (ulong)plane;
% endif
    for (${index} plain = first; plain < last; plain++) {
% for n in names:
        ${parts.pointer(n)} = ${n}_in
            + (${n}_offset + ${axes.offset("outer", n, axes.digits("outer", outer, "plain"))});
% endfor
        for (${index} place = 0; place < plane; place++)
% if line:
            for (${index} b = begin, j = 0; b < end; b++) ${e.name}_store(out + place * out_flat${column}, 0);
% else:
            ${"sums[place] = 0" if sums else f"{e.name}_store(out + place * out_flat, 0)"};
% endif
        for (${index} row = 0; row < rows; row++) {
% for k in range(across):
<% slower = " * ".join(f"size{axis}" for axis in range(k + 1, across)) %>\
            const ${index} o${k} = ${f"row / ({slower})" if slower else "row"}${f" % size{k}" if k else ""};
% endfor
% for n in sources:
            ${parts.pointer(n, "_row")} = ${n}${"".join(f" + o{k} * {n}_step{k}" for k in range(across))};
% endfor
            for (${index} b = begin; b < end; b += ${B}) {
                const int n = min((${index})${B}, end - b);
                for (int j = 0; j < n; j++) {
                    const long to = which_row[(b + j)${step["which"]}];
                    at[j] = to >= 0 && to < plane ? to : -1;
                }
                for (int j = 0; j < n; j += 16) {
                    const ${index}16 to = vload16(0, at + j);
                    ${index}16 ${"inside = 0" if line else "column = -2"};
${nest(0)}\
% if not line:
                    ${index}16 inside = 0;
                    for (int t = 0; t < most${across}; t++)
                        inside |= column == ${convert}(vload16(0, places${across} + t * size${across} + b + j));
% endif
                    vstore16(select((${index}16)(-1), to, inside), 0, at + j);
                }
                for (int j = 0; j < n; j++) {
                    if (at[j] < 0) continue;
% if not sums:
                    __global ${e.name}_t *to = out + at[j] * out_flat${column};
% endif
                    const ${e.value} v = ${e.name}_load(x_row + (b + j)${step["x"]});
                    ${"sums[at[j]] += v" if sums else add};
                }
            }
        }
% if sums:
        ${index} place = 0;
        for (; out_flat == 1 && place + 16 <= plane; place += 16)
            ${e.name}_store16(out + place, vload16(0, sums + place));
        for (; place < plane; place++) ${e.name}_store(out + place * out_flat, sums[place]);
% endif
    }
}

## For the places of the axes from k on, mark the indices that are in a window, or find their `column`.
<%def name="nest(k)">\
<% base = "0" + "".join(f" + p{axis} * flat{axis}" for axis in range(k)) %>\
% if k < across:
                    for (int t${k} = 0; t${k} < most${k}; t${k}++) {
                        const int p${k} = places${k}[t${k} * size${k} + o${k}];
                        if (p${k} < 0) break;
${nest(k + 1)}\
                    }
% elif line:
                    inside |= to == ${base};
% else:
                    { const ${index}16 p = to - (${base}); column = ((p >= 0) & (p < width)) ? p : column; }
% endif
</%def>
