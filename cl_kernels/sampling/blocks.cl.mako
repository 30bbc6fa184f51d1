## blocks: on a GPU, the results of `tiles`, by work-items that compute blocks of adjacent outputs.  The windows that
## blocks read have the same pattern in all blocks.
##
##   window of block (c0, c1)   x x x x x x      W0 x W1 elements, each of which is loaded once
##                              x x x x x x      for C0 x C1 outputs
##
## c0, c1: the number of the block along each ruled axis.  A work-item computes one block of outputs at `repeats_each`
## places of the repeated axis (see tiles).  Adjacent work-items have adjacent blocks, or, with plain_columns, adjacent
## vectors of the plain axis along which the result is contiguous.
##
## blocks: AxisBlocks of each ruled axis.  segments: (begin, width) of the loads of a row of a window, by source.
## C: width of the store of a row of a block, or 1.  tails: whether the last block of each axis has fewer outputs.
## G: work-items of a group.  LX: those along the columns.  columns, rows, positions, plain, repeats: as in tiles, with
## blocks in the place of outputs.  own: the flat index of the block's first output.  Other parameters: see _parts.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>
<%namespace name="windows" file="/sampling/_windows.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
K, LY = len(blocks), G // LX
block_numbers = ["position"] if K == 1 else ["position / blocks1", "position % blocks1"]
window_rows = sorted({tap for taps in blocks[0].taps for tap in taps}) if K == 2 else [0]
%>
${element.scalar(e)}
% for width in sorted({V, C, *(width for loads in segments.values() for _, width in loads)} - {1}):
${element.vector_load(e, width, min(16, e.itemsize * width))}
${element.vector_store(e, width, min(16, e.itemsize * width))}
% endfor
${parts.define_powers([V, *(width for loads in segments.values() for _, width in loads)])}\

__kernel ${group.of_size(G)}
void ${kernel("sampling")}
{
    const ${index} tile = get_group_id(0), lane = get_local_id(0);
    const ${index} column = (tile % columns_parts * ${LX} + lane % ${LX}) * ${V};
    const ${index} chunk = tile / columns_parts * ${LY} + lane / ${LX};
    const ${index} row = chunk % rows, first = chunk / rows * repeats_each, end = min(repeats, first + repeats_each);
    if (column >= columns || first >= end) return;
    const ${index} position = ${"row % positions" if plain_columns else "column"};
    const ${index} plain = ${"row / positions" if plain_columns else "row"};
    (void)plain;
% for k in range(K):
    const ${index} c${k} = ${block_numbers[k]};
% endfor
% for n in names:
    ${parts.pointer(n)} = ${n}_data + (${n}_offset + ${axes.offset("outer", n, axes.digits("outer", outer, "plain"))}
        + first * (long)${n}_repeat${f" + column * (long){n}_column_step" if plain_columns else ""}\
${"".join(f" + c{k} * {blocks[k].size} * (long){n}_step{k}" for k in range(K)) if n not in sources else ""});
% endfor
% for k in range(K):
${windows.declare(k)}\
% endfor
% if routed:
    const int own = ${" + ".join(f"c{k} * {blocks[k].size} * flat{k}" for k in range(K))};
% endif
    for (${index} repeat = first; repeat < end; repeat++) {
% for o in range(blocks[0].size * (blocks[1].size if K == 2 else 1)):
        ${parts.type_of()} acc${o} = ${parts.nothing()};
% if kind == "argmax":
        ${index} found${o} = -1;
% elif by_flags:
        int is_nan${o} = 0;
% endif
% endfor
% for w in window_rows:
${windows.row(w)}\
% endfor
% for j in range(blocks[0].size if K == 2 else 1):
${stored(j)}\
% endfor
% for n in names:
        ${n} += ${n}_repeat;
% endfor
    }
}

## Store row j of a block.  by_flags: whether NaN is found separately from the maximum, with fewer operations.
<%def name="stored(j)">\
<% last, two = len(blocks) - 1, len(blocks) == 2; C1 = blocks[last].size %>\
% if two and tails[0]:
        if (c0 * ${blocks[0].size} + ${j} < size0) {
% else:
        {
% endif
<% at = f"{j} * out_step0" if two else "0" %>\
% for i in range(C1 if by_flags else 0):
        acc${j * C1 + i} = is_nan${j * C1 + i} ? (${e.value})NAN : acc${j * C1 + i};
% endfor
% if C > 1:
<% results = ", ".join(capture(parts.result, f"acc{j * C1 + i}") for i in range(C1)) %>\
        ${e.name}_store${C}(out + ${at}, (${vector(e.value, C)})(${results}));
% endif
% for i in range(0 if C > 1 else C1):
<% inside = f"if (c{last} * {C1} + {i} < size{last}) " if tails[last] else "" %>\
        ${inside}${e.name}_store${V if V > 1 else ""}(out + (${at} + ${i} * out_step${last}),
            ${parts.result(f"acc{j * C1 + i}")});
% endfor
% for i in range(0, C1 if kind == "argmax" and C > 1 else 0, 2):
<% pair = f"(long2)(found{j * C1 + i}, found{j * C1 + i + 1})" %>\
        *(__global long2 *)(indices + ${f"{j} * indices_step0 + " if two else ""}${i}) = ${pair};
% endfor
% for i in range(C1 if kind == "argmax" and C == 1 else 0):
<% inside = f"if (c{last} * {C1} + {i} < size{last}) " if tails[last] else "" %>\
        ${inside}indices[${f"{j} * indices_step0 + " if two else ""}${i} * indices_step${last}] = found${j * C1 + i};
% endfor
        }
</%def>
