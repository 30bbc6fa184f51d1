## Parts of scatter: places of a plane of the result, or of its sums, that are set to 0, sums that are stored, and the
## comparison of 16 indices with the places of windows.
## In scope: begin, end, columns_each, plane, out, out_flat, sums, cleared; of the comparison to, inside, column and the
## tables.  Parameters: see scatter and _parts.  step: for each operand the text " * stride" of a column, or "".

## Set the places from `cleared` on to 0, up to `stop`.
<%def name="cleared(stop, step)">\
for (; cleared < ${stop}; cleared++) {
% if line and sums:
                for (${index} b = begin; b < end; b++) sums[cleared * columns_each + (b - begin)] = 0;
% elif line:
                for (${index} b = begin; b < end; b++)
                    ${e.name}_store(out + cleared * out_flat + b${step["out"]}, 0);
% else:
                ${"sums[cleared] = 0" if sums else f"{e.name}_store(out + cleared * out_flat, 0)"};
% endif
            }
</%def>

## Store the sums of a plane.
<%def name="stored(step)">\
% if line:
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

## For the places of the axes from k on, mark the indices that are in a window, or find their `column`: see scatter.
<%def name="marked(k, across)">\
<% base = "0" + "".join(f" + p{axis} * flat{axis}" for axis in range(k)) %>\
% if k < across:
                    for (int t${k} = 0; t${k} < most${k}; t${k}++) {
                        const int p${k} = places${k}[t${k} * size${k} + o${k}];
                        if (p${k} < 0) break;
${marked(k + 1, across)}\
                    }
% elif line:
                    inside |= to == ${base};
% else:
                    { const ${index}16 p = to - (${base}); column = ((p >= 0) & (p < width)) ? p : column; }
% endif
</%def>
