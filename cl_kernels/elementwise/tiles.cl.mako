## tiles: out[...] = f(inputs[...]) on a GPU, with NumPy's broadcasting.
##
##          columns_each columns = LX work-items side by side, X vectors of V elements of each
##   row 0  | V V V ... V | V V V ... V | ...        a group has a tile: G / LX rows at a time, Y times
##   row 1  | V V V ... V | V V V ... V |
##   ...
##
## Rows are the positions on all axes but the inner one, so that a division is needed for a row, and
## none for an element.  Inside, all loads of a tile come before its stores; tiles at an edge go
## vector by vector, and element by element at last.  Every work-item holds its own results.
##
## G: work-items of a group.  LX, X, Y: as above.  Other parameters: see _arrays.
<%namespace name="arrays" file="/elementwise/_arrays.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% LY = G // LX %>
${arrays.define(True)}

__kernel ${group.of_size(G)}
void elementwise(
${arrays.parameters()})
{
    const ${index} tile = get_group_id(0), lane = get_local_id(0);
    const ${index} column = tile % parts * columns_each + lane % ${LX} * ${V};
    const ${index} first_row = tile / parts * rows_each + lane / ${LX};
    if (first_row + ${(Y - 1) * LY} < rows && column + ${(X - 1) * LX * V + V} <= columns) {
% for y in range(Y):
${row(f"first_row + {y * LY}", f"_{y}")}\
% endfor
% for y in range(Y):
% for x in range(X):
        const ${vector(f.result, V)} v_${y}_${x} = ${f.called(V)}(${arrays.arguments(V, f"column + {x * LX * V}", f"_{y}")});
% endfor
% endfor
% for y in range(Y):
% for x in range(X):
        ${arrays.store(V, f"column + {x * LX * V}", f"v_{y}_{x}", f"_{y}")}
% endfor
% endfor
        return;
    }
    for (${index} row = first_row, y = 0; row < rows && y < ${Y}; row += ${LY}, y++) {
${arrays.rows_of()}\
        for (${index} x = 0; x < ${X}; x++) {
            ${index} i = column + x * ${LX * V};
% if V > 1:
            if (i + ${V} <= columns) {
                const ${vector(f.result, V)} v = ${f.called(V)}(${arrays.arguments(V, "i")});
                ${arrays.store(V, "i", "v")}
                continue;
            }
% endif
            for (${index} end = min(columns, i + ${V}); i < end; i++) {
                const ${f.result} v = ${f.name}(${arrays.arguments(1, "i")});
                ${arrays.store(1, "i", "v")}
            }
        }
    }
}

## Declare where the arrays' row begins, by names of a suffix.
<%def name="row(at, suffix)">\
% if outer:
    const ${index} row${suffix} = ${at};
% endif
% for n, e in [*inputs.items(), ("out", result)]:
    __global ${"const " if n != "out" else ""}${e.name}_t *${n}${suffix} = ${n}_in + (${n}_offset + ${axes.offset("outer", n, axes.digits("outer", outer, "row" + suffix))});
% endfor
</%def>
