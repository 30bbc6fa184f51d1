## tiles: on a GPU, out[o] = the combination of the taps of o (see _parts).  Along a "ruled" axis a rule gives the taps
## of an output; along a "plain" axis an output reads the elements at its own place.
##
##            LX work-items side by side, V elements each       ^ rows and chunks of the repeated axis
##   row 0    | V V V ... V |                                   | G / LX of them are side by side
##   row 1    | V V V ... V |
##
## Columns are the positions on all ruled axes, if the result is contiguous along the last one, or, with plain_columns,
## the plain axis along which it is contiguous, and then positions are rows.  A work-item finds its taps once, and
## computes its results at `repeats_each` places of one plain axis, the repeated axis.  Group g has part
## g % columns_parts of the columns.
##
## G: work-items of a group.  LX, V: as above.  unrolled: whether the loop over places is unrolled, so that more loads
## are in flight.  positions: of all ruled axes together; plain: the position on the other axes but the repeated one, of
## which there are `repeats` places.  o<k>: the output's place on ruled axis k.  NAME_repeat: the stride of operand NAME
## along the repeated axis.  Other parameters: see _parts.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>
<%namespace name="taps_of" file="/sampling/_taps.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% K, LY = len(taps), G // LX %>
${element.scalar(e)}
% if V > 1:
${element.vector_load(e, V, True)}
${element.vector_store(e, V, True)}
% endif
${parts.define_powers([V])}\

__kernel ${group.of_size(G)}
void ${kernel("sampling")}
{
    const ${index} tile = get_group_id(0), lid = get_local_id(0);
    const ${index} column = (tile % columns_parts * ${LX} + lid % ${LX}) * ${V};
    const ${index} block = tile / columns_parts * ${LY} + lid / ${LX};
    const ${index} row = block % rows, first = block / rows * repeats_each, end = min(repeats, first + repeats_each);
    if (column >= columns || first >= end) return;
    const ${index} position = ${"row % positions" if plain_columns else "column"};
    const ${index} plain = ${"row / positions" if plain_columns else "row"};
    (void)plain;
% for k in range(K):
    const ${index} o${k} = ${axes_of_position(k)};
% endfor
% for n in names:
    ${parts.pointer(n)} = ${n}_data + (${n}_offset + ${axes.offset("outer", n, axes.digits("outer", outer, "plain"))}
        + first * (long)${n}_repeat${f" + column * (long){n}_column_step" if plain_columns else ""}\
${"".join(f" + o{k} * (long){n}_step{k}" for k in range(K)) if n not in sources else ""});
% endfor
% for k in range(K):
${taps_of.declare(k)}\
% endfor
% if routed:
    const long own = ${" + ".join(f"o{k} * (long)flat{k}" for k in range(K))};
% endif
% if any(gaps):
    const bool inside = ${" && ".join(f"places{k}[o{k}] >= 0" for k in range(K) if gaps[k])};
% endif
% if unrolled:
    #pragma unroll 4
% endif
    for (${index} repeat = first; repeat < end; repeat++) {
        ${parts.type_of()} acc = ${parts.nothing()};
% if kind == "argmax":
        ${index} found = -1;
% endif
% if any(gaps):
        if (inside) {
% endif
% if kind == "sum":
            ${parts.type_of()} sum0 = 0;
% endif
${taps_of.nest(0, {n: "" for n in sources}, "")}\
% if kind == "sum":
            acc = sum0;
% endif
% if any(gaps):
        }
% endif
        ${e.name}_store${V if V > 1 else ""}(out, ${parts.result("acc")});
% if kind == "argmax":
        *indices = found;
% endif
% for n in names:
        ${n} += ${n}_repeat;
% endfor
    }
}

## The place of the output on ruled axis k.
<%def name="axes_of_position(k)">\
<% slower = " * ".join(f"size{axis}" for axis in range(k + 1, K)) %>\
${f"position / ({slower})" if slower else "position"}${f" % size{k}" if k else ""}\
</%def>
