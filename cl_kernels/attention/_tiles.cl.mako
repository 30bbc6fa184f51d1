## Parts of backward: loads of a work-item's own row (a query or a key) to registers, and of tiles of TK rows of the
## other side to local memory, NAMEt.  `extent` is the length of a row there, `size` the argument with the true one.  In
## scope there: lid, the local id (of G); b, batch; own_head; t0, the first row of the tile; others, the other side's
## rows.

## Load the tile of both arrays of the other side: rows from t0 on of head `head`, or 0 where there are none.
<%def name="load(tiles, head)">\
            barrier(CLK_LOCAL_MEM_FENCE);
% for name, size, extent in tiles:
            for (uint index = lid; index < ${TK * extent}u; index += ${G}u) {
                const uint row = t0 + index / ${extent}u, d = index % ${extent}u;
                const long at = b * ${name}_batch + (${head}) * ${name}_head + row * ${name}_row + d * ${name}_step;
                ${name}t[index] = row < others && d < ${size}
                    ? ${elem.name}_load(${name}_data + ${name}_offset + at) : 0;
            }
% endfor
            barrier(CLK_LOCAL_MEM_FENCE);
</%def>

## Load the work-item's row own_row of an array, in vectors of V elements of type T.
<%def name="load_own_row(T, name, size, extent)">\
    ${T} ${name}[${extent // V}];
    {
        __global const ${elem.name}_t *row = ${name}_data
            + (${name}_offset + b * ${name}_batch + own_head * ${name}_head + own_row * ${name}_row);
#undef ELEMENT
#define ELEMENT(d) ((d) < ${size} ? ${elem.name}_load(row + (d) * ${name}_step) : 0)
% for d in range(0, extent, V):
        ${name}[${d // V}] = (${T})(${", ".join(f"ELEMENT({d + i}u)" for i in range(V))});
% endfor
    }
</%def>
