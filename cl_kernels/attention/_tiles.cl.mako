## Tiles of the rows of attention's other side.  See backward.

## Load a tile of both arrays of the other side, rows t0 and on of head h.
<%def name="load(tiles, head)">\
% if not target.is_cpu:
            barrier(CLK_LOCAL_MEM_FENCE);
% endif
% for name, size, extent in tiles:
            for (uint e = lid; e < ${TK * extent}u; e += ${G}u) {
                const uint j = t0 + e / ${extent}u, d = e % ${extent}u;
                const long at = b * ${name}_batch + (${head}) * ${name}_head + j * ${name}_row + d * ${name}_step;
                ${name}t[e] = j < others && d < ${size} ? ${elem.name}_load(${name}_in + ${name}_offset + at) : 0;
            }
% endfor
% if not target.is_cpu:
            barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
