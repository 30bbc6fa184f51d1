## tiles: out[...] = f(inputs[...]) on a GPU, with NumPy's broadcasting.
##
##          columns_each columns = LX work-items side by side, X vectors of V elements of each
##   row 0  | V V V ... V | V V V ... V | ...        a group has a tile: G / LX rows at a time, Y times
##   row 1  | V V V ... V | V V V ... V |
##   ...
##
## Rows are the positions on all axes but the inner one, so that a division is needed for a row, and
## none for an element.  All loads of a tile are before its stores.  The elements at the end of a row that fill no
## vector are computed after the vectors.  Launch: one group a tile, `parts` tiles side by side.
##
## G: work-items of a group.  LX, X, Y: as above.  v_{y}_{x}: vector x of the work-item in row first_row + y G / LX.
## Other parameters: see _arrays.
<%namespace name="arrays" file="/elementwise/_arrays.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% LY = G // LX %>
${arrays.define(True)}

__kernel ${group.of_size(G)}
void ${kernel("elementwise")}
{
    const ${index} tile = get_group_id(0), lane = get_local_id(0);
    const ${index} column = tile % parts * columns_each + lane % ${LX} * ${V};
    const ${index} first_row = tile / parts * rows_each + lane / ${LX};
% for y in range(Y):
${row(f"first_row + {y * LY}", f"_{y}")}\
% endfor
    if (first_row + ${(Y - 1) * LY} < rows && column + ${(X - 1) * LX * V + V} <= columns) {
${vectors(False)}\
        return;
    }
${vectors(True)}\
## The elements of each row after its last whole vector are computed one by one, by the work-item that is next there.
% if V > 1:
    if (columns % ${V} == 0) return;
    for (${index} row = first_row, y = 0; row < rows && y < ${Y}; row += ${LY}, y++) {
${arrays.rows_of()}\
        for (${index} i = column; i < column + ${X * LX * V}; i += ${LX * V}) {
            if (i >= columns || i + ${V} <= columns) continue;
% for j in range(V - 1):
            const ${f.result} v${j} = ${f.name}(${arrays.arguments(1, f"min(i + {j}, columns - 1)")});
% endfor
% for j in range(V - 1):
            if (i + ${j} < columns) { ${arrays.store(1, f"i + {j}", f"v{j}")} }
% endfor
        }
    }
% endif
}

## All vectors of a work-item; guarded: only those that are wholly inside the array.
<%def name="vectors(guarded)">\
% for y in range(Y):
% for x in range(X):
<% at = f"column + {x * LX * V}" %>\
% if guarded:
    const bool in_${y}_${x} = first_row + ${y * LY} < rows && ${at} + ${V} <= columns;
    ${vector(f.result, V)} v_${y}_${x} = 0;
    if (in_${y}_${x}) v_${y}_${x} = ${f.called(V)}(${arrays.arguments(V, at, f"_{y}")});
% else:
        const ${vector(f.result, V)} v_${y}_${x} = ${f.called(V)}(${arrays.arguments(V, at, f"_{y}")});
% endif
% endfor
% endfor
% for y in range(Y):
% for x in range(X):
<% stored = capture(arrays.store, V, f"column + {x * LX * V}", f"v_{y}_{x}", f"_{y}") %>\
    ${f"if (in_{y}_{x}) {{ {stored} }}" if guarded else f"    {stored}"}
% endfor
% endfor
</%def>

## Declare pointers to the start of row `at` of every array, NAME + suffix.
<%def name="row(at, suffix)">\
% if outer:
    const ${index} row${suffix} = ${at};
% endif
% for n, e in [*inputs.items(), ("out", result)]:
    __global ${"const " if n != "out" else ""}${e.name}_t *${n}${suffix} = ${n}_data
        + (${n}_offset + ${axes.offset("outer", n, axes.digits("outer", outer, "row" + suffix))});
% endfor
</%def>
