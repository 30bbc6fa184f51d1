## Three parts of scatter: zeros are stored in places of a plane of the result, or in its array of sums; the sums are
## stored; and 16 indices are compared with the places of windows.
## In scope: begin, end, columns_each, plane, out, out_flat, sums, cleared (the number of places that have been set to
## 0); in `compare` also to, inside, column and the tables of places.  Parameters: see scatter and _parts.  step: for
## each operand the text " * stride" of a column, or "".

## Set the places from `cleared` to stop - 1 to 0.
<%def name="clear(stop, step)">\
% if sums:
<% columns = " * columns_each" if plain_columns else "" %>\
            for (${index} k = cleared${columns}; k < (${stop})${columns}; k++) sums[k] = 0;
            cleared = max(cleared, (${index})(${stop}));
% else:
            for (; cleared < ${stop}; cleared++) {
% if plain_columns:
                for (${index} b = begin; b < end; b++)
                    ${e.name}_store(out + cleared * out_flat + b${step["out"]}, 0);
% else:
                ${e.name}_store(out + cleared * out_flat, 0);
% endif
            }
% endif
</%def>

## Store the sums of a plane.
<%def name="store_sums(step)">\
        ${index} place = 0;
% if not plain_columns or unit["out"]:
<%
    columns, start, condition = "", "out", "out_flat == 1"
    if plain_columns:
        columns, start = " * columns_each", "out + begin"
        condition = "out_flat == columns_each && end - begin == columns_each"
%>\
        if (${condition}) {  // no gaps between places
            ${index} k = 0;
            for (; k + 16 <= plane${columns}; k += 16) ${e.name}_store16(${start} + k, vload16(0, sums + k));
            for (; k < plane${columns}; k++) ${e.name}_store(${start} + k, sums[k]);
            place = plane;
        }
% endif
        for (; place < plane; place++) {
% if plain_columns:
            __global ${e.name}_t *to = out + place * out_flat;
            __global const ${e.real} *from = sums + place * columns_each;
            ${index} b = begin;
% if unit["out"]:
            for (; b + 16 <= end; b += 16) ${e.name}_store16(to + b, vload16(0, from + (b - begin)));
% endif
            for (; b < end; b++) ${e.name}_store(to + b${step["out"]}, from[b - begin]);
% else:
            ${e.name}_store(out + place * out_flat, sums[place]);
% endif
        }
</%def>

## Set `to` to the `width` indices of sources from b + j on, -1 for those that are outside of the plane.
<%def name="indices(width=16)">\
<% parts = [(k, min(8, width)) for k in range(-(-width // 8))] %>\
% for k, size in parts:
                        const long${size} which${k} = vload${size}(${k}, which_row + b + j);
                        const long${size} fits${k} = which${k} >= 0 & which${k} < plane;
% endfor
                        to = (${index}${width})(${", ".join(
                            f"convert_{index}{size}(which{k} | ~fits{k})" for k, size in parts)});
</%def>

## Add vectors of some widths of sources of plain columns to all places of their windows, as 0 where the index is
## another one.
<%def name="add_vectors(across, widths)">\
% for width in widths:
                for (; added + ${width} <= n; added += ${width}) {
                    const int j = added;
                    int${width} to;
${indices(width)}\
                    const float${width} v = ${e.name}_load${width}(x_row + b + j);
${add_to(0, across, width)}\
                }
% endfor
</%def>

## Add v to the places of the axes from k on.
<%def name="add_to(k, across, width)">\
% if k < across:
                    for (int t${k} = 0; t${k} < most${k}; t${k}++) {
                        const int p${k} = places${k}[t${k} * size${k} + o${k}];
                        if (p${k} < 0) break;
${add_to(k + 1, across, width)}\
                    }
% else:
<%
    place = " + ".join(f"p{axis} * flat{axis}" for axis in range(k))
    at = "sums + place * columns_each + (b - begin + j)" if sums else "out + place * out_flat + (b + j)"
    load = f"vload{width}(0, at)" if sums else f"{e.name}_load{width}(at)"
    value = f"to == place ? v : {load}" if kind == "placed" else f"{load} + (to == place ? v : 0)"
    store = f"vstore{width}({value}, 0, at)" if sums else f"{e.name}_store{width}(at, {value})"
%>\
                        const int place = ${place};
                        __global ${e.real if sums else f"{e.name}_t"} *at = ${at};
                        ${store};
% endif
</%def>

## Compare the 16 indices `to` with the places of the windows of their sources, in loops over the places of the ruled
## axes k to across - 1, which are among the rows.  With plain_columns, these are all ruled axes: `inside` becomes true
## where an index is a place.  Else `column` becomes its place along the last axis (see scatter).
<%def name="compare(k, across)">\
<% base = "0" + "".join(f" + p{axis} * flat{axis}" for axis in range(k)) %>\
% if k < across:
                    for (int t${k} = 0; t${k} < most${k}; t${k}++) {
                        const int p${k} = places${k}[t${k} * size${k} + o${k}];
                        if (p${k} < 0) break;
${compare(k + 1, across)}\
                    }
% elif plain_columns:
                    inside |= to == ${base};
% else:
                    { const ${index}16 p = to - (${base}); column = ((p >= 0) & (p < width)) ? p : column; }
% endif
</%def>
