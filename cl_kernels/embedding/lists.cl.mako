## lists: for each chunk of the indices and each row, the positions of the row in the chunk, in increasing order.
##
##   indices  | chunk 0 | chunk 1 | ...        head[chunk, row]: the first position, or -1
##   rows     | range 0 | range 1 | ...        next[position]: the following one of the same row, or -1
##                                             tail[chunk, row]: the last position, if there is one
## positions: head, tail and next, one after another.
##
## A work-item has a chunk and a range of rows.  It walks back through the chunk, so it needs no atomics.  On a GPU the
## work-items of a group have one chunk, whose indices they copy to local memory, G at a time.  Indices of no row, and
## of the row `padding`, are in no list.  Group 0 checks the indices (_check).
##
## idx: the element type of indices.  G: work-items of a group.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="check" file="/embedding/_check.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(idx)}

__kernel ${group.of_size(G)}
void ${kernel("lists")}
{
    __global const ${idx.name}_t *indices = indices_data + indices_data_offset;
${check.report_first()}
    const long block = get_group_id(0) - 1, blocks = (ranges + ${G - 1}) / ${G};
    const long chunk = block / blocks, low = (block % blocks * ${G} + get_local_id(0)) * rows_each;
    const long high = min(rows, low + rows_each), begin = chunk * chunk_size, end = min(count, begin + chunk_size);
    __global int *head = positions + chunk * rows, *tail = head + chunks * rows, *next = positions + 2 * chunks * rows;
    for (long row = low; row < high; row++) head[row] = -1;
% if G > 1:
    __local int rows_near[${G}];  // the rows of G indices, the last one first, or -1
    const int lane = get_local_id(0), lowest = (int)low, size = (int)max(0L, high - low);
    for (long last = end; last > begin; last -= ${G}) {
        const int part = (int)min(${G}L, last - begin);
        const long mine = lane < part ? (long)${idx.name}_load(indices + (last - 1 - lane)) : -1;
        rows_near[lane] = mine < 0 || mine >= rows || mine == padding ? -1 : (int)mine;
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll 8
        for (int k = 0; k < part; k++) {
            const int row = rows_near[k];
            if (row >= lowest && row - lowest < size) {
${added("last - 1 - k")}\
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% else:
    for (long i = end - 1; i >= begin; i--) {
        const long row = (long)${idx.name}_load(indices + i);
        if (row < low || row >= high || row == padding) continue;
${added("i")}\
    }
% endif
}

## Put a position in front of the list of its row.
<%def name="added(position)">\
                const int position = (int)(${position}), behind = head[row];
                next[position] = behind;
                if (behind < 0) tail[row] = position;
                head[row] = position;
</%def>
