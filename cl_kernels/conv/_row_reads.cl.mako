## Parts of direct and weight: loads of adjacent elements of a row for several results at a time, on a CPU.
##
## rows: ops.conv.axis_taps.RowReads.  For V adjacent results, a tap reads V adjacent elements of a row.  With the step
## 2 it reads every second of 2 V adjacent elements.  With the divisor 2 it reads V / 2 adjacent elements, one for every
## second result.
<%! from portable_gpu.codegen.operators import vector %>

## read: an expression for the elements of a row that a tap reads for V results.  lanes: the component suffix of the
## results that add them.  places: for each result the number of the element that a tap reads (AxisTaps.reads), or None.
## In scope at the caller: p, the row; from, the position of element 0; p0, p1: the row's position in the plane.
<%def name="read(rows, places)">\
<% first = next(j for j in places if j is not None) %>\
row_load(p, from + ${first}, s2_size, p0 * s_axis0 + p1 * s_axis1, plane)${".even" if rows.step == 2 else ""}\
</%def>
<%def name="lanes(places)">\
% if None in places:
${".odd" if places[0] is None else ".even"}\
% endif
</%def>

## Define row_load: N adjacent elements from position `from` of a row on, with 0 for those outside of the row.  Where
## the vector is inside of the plane, which has `plane` elements, `before` of them in front of the row, it is one load,
## and the elements of other rows are replaced by 0.
<%def name="loader(elem, N)">\
<% E, real, index = elem.name, vector(elem.real, N), vector("long" if elem.real == "double" else "int", N) %>\
static inline ${real} row_load(__global const ${E}_t *p, long from, long size, long before, long plane)
{
    if (from >= 0 && from + ${N} <= size) return ${E}_load${N}(p + from);
    if (from + ${N} <= 0 || from >= size) return (${real})(0);
<% elements = [f"from + {j} >= 0 && from + {j} < size ? {E}_load(p + from + {j}) : 0" for j in range(N)] %>\
    ${real} x;
    if (from + before >= 0 && from + before + ${N} <= plane) x = ${E}_load${N}(p + from);
    else x = (${real})(${", ".join(elements)});
    const ${index} at = (${index})(${", ".join(map(str, range(N)))}) + (${index})(from);
    return select((${real})(0), x, (at >= (${index})(0)) & (at < (${index})(size)));
}
</%def>

