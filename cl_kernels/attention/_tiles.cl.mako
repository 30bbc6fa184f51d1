## Loads of backward, whose names are used: a work-item's own row (a query or a key) to registers, and tiles of TK rows
## of the other side to local memory.  `extent` is the length of a row there, `size` the argument with the true one.

## Load the tile of both arrays of the other side: rows from t0 on of head `head`, or 0 where there are none.
<%def name="load(tiles, head)">\
            barrier(CLK_LOCAL_MEM_FENCE);
% for name, size, extent in tiles:
            for (uint e = lid; e < ${TK * extent}u; e += ${G}u) {
                const uint j = t0 + e / ${extent}u, d = e % ${extent}u;
                const long at = b * ${name}_batch + (${head}) * ${name}_head + j * ${name}_row + d * ${name}_step;
                ${name}t[e] = j < others && d < ${size} ? ${elem.name}_load(${name}_in + ${name}_offset + at) : 0;
            }
% endfor
            barrier(CLK_LOCAL_MEM_FENCE);
</%def>

## Load the work-item's own row x of an array, in vectors of V elements of type T.
<%def name="load_own_row(T, name, size, extent)">\
    ${T} ${name}[${extent // V}];
    {
        __global const ${elem.name}_t *row = ${name}_in
            + (${name}_offset + b * ${name}_batch + own_head * ${name}_head + x * ${name}_row);
#undef ELEMENT
#define ELEMENT(d) ((d) < ${size} ? ${elem.name}_load(row + (d) * ${name}_step) : 0)
% for c in range(0, extent, V):
        ${name}[${c // V}] = (${T})(${", ".join(f"ELEMENT({c + i}u)" for i in range(V))});
% endfor
    }
</%def>
