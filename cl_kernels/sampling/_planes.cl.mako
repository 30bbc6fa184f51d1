## Three parts of scatter: zeros are stored in places of a plane of the result, or in its array of sums; the sums are
## stored; and 16 indices are compared with the places of windows.
## In scope: begin, end, columns_each, plane, out, out_flat, sums, cleared (the number of places that have been set to
## 0); in `compare` also to, inside, column and the tables of places.  Parameters: see scatter and _parts.  step: for
## each operand the text " * stride" of a column, or "".

## Set the places from `cleared` to stop - 1 to 0.
<%def name="clear(stop, step)">\
for (; cleared < ${stop}; cleared++) {
% if plain_columns and sums:
                for (${index} b = begin; b < end; b++) sums[cleared * columns_each + (b - begin)] = 0;
% elif plain_columns:
                for (${index} b = begin; b < end; b++)
                    ${e.name}_store(out + cleared * out_flat + b${step["out"]}, 0);
% else:
                ${"sums[cleared] = 0" if sums else f"{e.name}_store(out + cleared * out_flat, 0)"};
% endif
            }
</%def>

## Store the sums of a plane.
<%def name="store_sums(step)">\
% if plain_columns:
        for (${index} place = 0; place < plane; place++) {
            __global ${e.name}_t *to = out + place * out_flat;
            __global const ${e.real} *from = sums + place * columns_each;
            ${index} b = begin;
% if unit["out"]:
            for (; b + 16 <= end; b += 16) ${e.name}_store16(to + b, vload16(0, from + (b - begin)));
% endif
            for (; b < end; b++) ${e.name}_store(to + b${step["out"]}, from[b - begin]);
        }
% else:
        ${index} place = 0;
        for (; out_flat == 1 && place + 16 <= plane; place += 16)
            ${e.name}_store16(out + place, vload16(0, sums + place));
        for (; place < plane; place++) ${e.name}_store(out + place * out_flat, sums[place]);
% endif
</%def>

## Set `to` to the 16 indices of sources from b + j on, -1 for those that are outside of the plane.
<%def name="indices()">\
                        const long8 low = vload8(0, which_row + b + j), high = vload8(1, which_row + b + j);
                        const long8 fits_low = low >= 0 & low < plane, fits_high = high >= 0 & high < plane;
                        to = (${index}16)(convert_${index}8(low | ~fits_low), convert_${index}8(high | ~fits_high));
</%def>

## Add 16 sources of plain columns at a time to all places of their windows, as 0 where the index is another one.
<%def name="add_vectors(across)">\
                for (; added + 16 <= n; added += 16) {
                    const int j = added;
                    int16 to;
${indices()}\
                    const float16 v = ${e.name}_load16(x_row + b + j);
${add_to(0, across)}\
                }
</%def>

## Add v to the places of the axes from k on.
<%def name="add_to(k, across)">\
% if k < across:
                    for (int t${k} = 0; t${k} < most${k}; t${k}++) {
                        const int p${k} = places${k}[t${k} * size${k} + o${k}];
                        if (p${k} < 0) break;
${add_to(k + 1, across)}\
                    }
% else:
<%
    place = " + ".join(f"p{axis} * flat{axis}" for axis in range(k))
    at = "sums + place * columns_each + (b - begin + j)" if sums else "out + place * out_flat + (b + j)"
    load = "vload16(0, at)" if sums else f"{e.name}_load16(at)"
    value = f"to == place ? v : {load}" if kind == "placed" else f"{load} + (to == place ? v : 0)"
    store = f"vstore16({value}, 0, at)" if sums else f"{e.name}_store16(at, {value})"
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
