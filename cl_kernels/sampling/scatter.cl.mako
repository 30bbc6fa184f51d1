## scatter: on a CPU, the sums of sources at the places of a plane that indices name (the gradient of max pooling):
## out = 0, then out[which[s]] += x[s] for all sources s in the order of the plane; or = x[s], of kind "placed".
##
##   plane 0 | row 0 | row 1 | ... of sources                 a group is one work-item and has planes_each
##   plane 1 |         B | B | ... of a row at a time         whole planes, or columns_each columns of a plane
##
## Taps are combined along ruled axes (_parts); the others are plain axes.  Columns are the plain axis along which the
## result is contiguous (with plain_columns), or the last ruled axis.  An index that is not in the window of its source
## (the places that may have that source as a tap) is ignored: it is compared with the places of the window.
##
## unit: whether each operand has stride 1 along the columns.  places<k>[t * size<k> + o]: place t of the window of
## source o along axis k, or -1; size<k>: the sources; most<k>: the most places of a window.  The rows t of the table of
## the last axis are padded to multiples of 16, because 16 sources are tested at a time.
## column: for each of 16 indices, its place along the last axis if it has one in the windows of the other axes, or -2,
## which differs from the table's -1.
## Before each row, the places up to the last one of its windows on axis 0 are set to 0, so that they are in the caches
## when they are added to.  reach: the end of these places; slab: the places of one place of axis 0.
##
## vectors: the widths of vectors of adjacent channels that a group adds, from the widest to the narrowest.
## sums: whether a plane is added in float32, in workspace, and stored when it is complete (16-bit floats).
## plane: the places of a plane; width: those of its last axis.  out_flat: the distance in the result of neighbours of
## the plane.  B, other parameters: see runs and _parts.  o<k>, t<k>, p<k>: source, tap and place on axis k; b + j: the
## column of source j of B.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>
<%namespace name="planes_of" file="/sampling/_planes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    K = len(taps)
    across = K if plain_columns else K - 1  # the ruled axes among the rows
    step = {n: "" if unit[n] else f" * {n}_column_step" if plain_columns else f" * {n}_step{across}" for n in names}
    convert = "convert_long16" if index == "long" else ""
    widths = vectors if all(unit[n] for n in names) and (e.real, index) == ("float", "int") else []
    column = f" + (b + j){step['out']}" if plain_columns else ""
    add = f"{e.name}_store(to, {'v' if kind == 'placed' else f'{e.name}_load(to) + v'})"
%>
${element.scalar(e)}
% for width in dict.fromkeys([*[16] * sums, *widths]):
${element.vector_load(e, width, False)}
${element.vector_store(e, width, False)}
% endfor

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("sampling")}
{
    const ${index} begin = get_group_id(0) % columns_parts * columns_each, end = min(columns, begin + columns_each);
    const ${index} first = get_group_id(0) / columns_parts * planes_each, last = min(planes, first + planes_each);
% if sums:
    // The sums of this group: [place][column].
    sums += get_group_id(0) * (ulong)plane${" * columns_each" if plain_columns else ""};
% endif
    ${index} at[${B}] __attribute__((aligned(128)));  // the places of sources in the result
    for (int j = 0; j < ${B}; j++) at[j] = -1;
    for (${index} plain = first; plain < last; plain++) {
% for n in names:
        ${parts.pointer(n)} = ${n}_data
            + (${n}_offset + ${axes.offset("outer", n, axes.digits("outer", outer, "plain"))});
% endfor
        ${index} cleared = 0;
        for (${index} row = 0; row < rows; row++) {
% for k in range(across):
<% slower = " * ".join(f"size{axis}" for axis in range(k + 1, across)) %>\
            const ${index} o${k} = ${f"row / ({slower})" if slower else "row"}${f" % size{k}" if k else ""};
% endfor
            ${index} reach = ${"cleared" if across else "plane"};
% if across:
            for (int t = 0; t < most0; t++) reach = max(reach, (places0[t * size0 + o0] + 1) * slab);
% endif
            ${planes_of.clear("reach", step)}
% for n in sources:
            ${parts.pointer(n, "_row")} = ${n}${"".join(f" + o{k} * {n}_step{k}" for k in range(across))};
% endfor
            for (${index} b = begin; b < end; b += ${B}) {
                const int n = min((${index})${B}, end - b);
                int added = 0;
${planes_of.add_vectors(across, widths)}\
                for (int next = added; next < n; next += 16) {
                    const int j = max(0, min(next, n - 16));  // the last 16 may be tested twice
                    ${index}16 to;
% if unit["which"]:
                    if (j + 16 <= n) {
${planes_of.indices()}\
                    } else
% endif
                    {
                        for (int k = j; k < min(n, j + 16); k++) {
                            const long place = which_row[(b + k)${step["which"]}];
                            at[k] = place >= 0 && place < plane ? place : -1;
                        }
                        to = vload16(0, at + j);
                    }
                    ${index}16 ${"inside = 0" if plain_columns else "column = -2"};
${planes_of.compare(0, across)}\
% if not plain_columns:
                    ${index}16 inside = 0;
                    for (int t = 0; t < most${across}; t++)
                        inside |= column == ${convert}(vload16(0, places${across} + t * size${across} + b + j));
% endif
                    vstore16(select((${index}16)(-1), to, inside), 0, at + j);
                }
                for (int j = added; j < n; j++) {
                    if (at[j] < 0) continue;
                    const ${e.value} v = ${e.name}_load(x_row + (b + j)${step["x"]});
% if sums:
                    sums[${"at[j] * columns_each + (b - begin + j)" if plain_columns else "at[j]"}] += v;
% else:
                    __global ${e.name}_t *to = out + at[j] * out_flat${column};
                    ${add};
% endif
                }
            }
        }
        ${planes_of.clear("plane", step)}
% if sums:
${planes_of.store_sums(step)}\
% endif
    }
}
