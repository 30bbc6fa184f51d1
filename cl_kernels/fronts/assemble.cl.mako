## Assemble fronts on a GPU: front = entries of the matrix in its own columns + updates of its children.  There is a
## work-group of 256 for each tile of 64 x 64 elements (see _blocks); local memory holds `height` rows of it at a time,
## each padded to 65 elements, so that the elements of a column are in different banks.
##
##          s ->                           A tile starts with zeros.  The matrix's entries are added, then the
##      +-----+-----+                      children's updates, one child after the other.  The rows (columns) of a
##   f  |     |tile |                      child that belong to the tile are adjacent, because the indices of its
##   |  +-----+-----+                      rows in the parent ascend.
##   v
## A tile is stored once.  Reads of a child's elements, and writes of the tile, are coalesced.
##
## tiles     for each group: front, column block s, row block f, and a number that only fronts/tiles reads
## values    the matrix's values; entry_source, entry_row, entry_column: see ops/fronts/table.py
## cuts      from cut_start[group] on, for each child of the front: for each block of the front, the child's first row
##           that is in this block or a later one, followed by the number of the child's rows
## height    64, or 32 where 64 rows would reduce the number of resident groups
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%namespace name="blocks" file="/fronts/_blocks.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}
${front_.first_from()}

__kernel ${group.of_size(256)}
void ${kernel("assemble")}
{
    __local value_t tile[${height * 65}];
    const int t = get_local_id(0);
    const int4 task = tiles[get_group_id(0)];
    const int s = task.y, f = task.z;
${front_.front("task.x", only=("columns", "rows", "panel", "leading", "update", "child_start", "child_end",
    "entry_start", "entry_end"))}
    ${blocks.sizes()}
    values += values_offset;
    factor += factor_offset;
    arena += arena_offset;
    ${blocks.tile()}
    ${blocks.place(e)}
% if height < 64:
    // Rows from .. from + left - 1 of the front at a time.
    for (int from = f0; from < f0 + left_f; from += ${height}) {
    const int left = min(f0 + left_f - from, ${height});
% else:
    const int from = f0, left = left_f;
% endif
    for (int k = t; k < ${height * 65}; k += 256) tile[k] = (value_t)(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is_panel) {
        __global const int *row = entry_row + entry_start;
        const int entries = (int)(entry_end - entry_start);
        const long start = entry_start, end = start + first_from(row, entries, from + left);
        for (long k = start + first_from(row, entries, from) + t; k < end; k += 256) {
            const int j = entry_column[k] - s0;
            if (j >= 0 && j < left_s) {
                const long source = entry_source[k];  // ~index where the conjugate is meant
                const value_t v = ${e.name}_load(values + (source < 0 ? ~source : source));
                tile[(entry_row[k] - from) * 65 + j] = ${"source < 0 ? CONJ(v) : v" if e.complex else "v"};
            }
        }
    }
    __global const int *cut = cuts + cut_start[get_group_id(0)];
    const int blocks = blocks_c + blocks_w + (u - w + 63) / 64;
    for (long k = child_start; k < child_end; ++k, cut += blocks + 1) {
        // The child's rows i and columns j that belong to the tile, in its own numbering; the update has only j <= i.
        const int i_from = cut[f], i_to = cut[f + 1], j_from = cut[s], j_to = min(cut[s + 1], i_to);
        barrier(CLK_LOCAL_MEM_FENCE);  // for every child: PoCL drops barriers that not all iterations execute
        if (i_from < i_to && j_from < j_to) {
            const int child_front = child[k];
${front_.front("child_front", "child_", ("rows", "update", "row_start"))}
            // u, w and e of the child's update: see _blocks.
            const int u_child = (int)child_rows, w_child = (u_child + 1) / 2, e_child = 1 - u_child % 2;
            __global const int *place = relative + child_row_start;
            __global const ${e.name}_t *child_packed = arena + child_update;
            for (int i = i_from + t / 64; i < i_to; i += 4) {
                const int row = place[i] - from;
                ${skip_other_rows()}
                // The first w columns of the packed update.
                for (int j = j_from + t % 64; j < min(min(j_to, w_child), i + 1); j += 64)
                    tile[row * 65 + place[j] - s0] +=
                        ${e.name}_load(child_packed + (long)(i + e_child) * w_child + j);
            }
            // Its other columns, which are stored transposed.
            for (int j = max(j_from, w_child) + t / 64; j < j_to; j += 4)
                for (int i = max(i_from, j) + t % 64; i < i_to; i += 64) {
                    const int row = place[i] - from;
                    ${skip_other_rows()}
                    tile[row * 65 + place[j] - s0] +=
                        ${e.name}_load(child_packed + (long)(j - w_child) * w_child + i - w_child + 1 - e_child);
                }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // Element (i, j) of the front is stored at v + i * v_col + j * v_row: v_row is the stride along s (see _blocks).
    if (v_row == 1) {
        for (int i = t / 64, j = t % 64; i < left; i += 4)
            if (j < left_s && s0 + j <= from + i) ${e.name}_store(v + (from + i) * v_col + s0 + j, tile[i * 65 + j]);
    } else {
        for (int j = t / 64; j < left_s; j += 4)
            for (int i = t % 64; i < left; i += 64)
                if (s0 + j <= from + i) ${e.name}_store(v + from + i + (s0 + j) * v_row, tile[i * 65 + j]);
    }
% if height < 64:
    barrier(CLK_LOCAL_MEM_FENCE);
    }
% endif
}
## Continue with the next row if this one is not in the part of the tile that local memory holds.
<%def name="skip_other_rows()">\
% if height < 64:
if (row < 0 || row >= left) continue;
% endif
</%def>
