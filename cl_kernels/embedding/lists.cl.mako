## lists: for each chunk of the indices and each row, the positions of the row in the chunk, in increasing order.
##
##   indices  | chunk 0 | chunk 1 | ...        head[chunk, row]: the first position, or -1
##   rows     | range 0 | range 1 | ...        next[position]: the following one of the same row, or -1
##
## A work-item has a chunk and a range of rows.  It walks back through the chunk, so it needs no atomics.  Indices of
## no row, and of the row `padding`, are in no list.
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
    __global const ${idx.name}_t *indices = indices_in + indices_in_offset;
${check.report_first()}
    const long item = get_global_id(0), chunk = item / ranges, low = item % ranges * rows_each;
    if (chunk >= chunks) return;
    const long high = min(rows, low + rows_each), begin = chunk * chunk_size, end = min(count, begin + chunk_size);
    __global int *head = positions + chunk * rows, *next = positions + chunks * rows;
    for (long row = low; row < high; row++) head[row] = -1;
    for (long i = end - 1; i >= begin; i--) {
        const long row = (long)${idx.name}_load(indices + i);
        if (row < low || row >= high || row == padding) continue;
        next[i] = head[row];
        head[row] = (int)i;
    }
}
