## joined: on a GPU, join the lists of all chunks of a row to one list, whose head is that of chunk 0.
##
##   rows   | 0 | 1 | ...      a work-item has a row; it walks from the last chunk to the first
##
## head, tail (of each chunk and row) and next (of each position): see lists; `positions` has them one after another.
## G: work-items of a group.
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>

__kernel ${group.of_size(G)}
void ${kernel("joined")}
{
    const long row = get_global_id(0);
    if (row >= rows) return;
    __global const int *tail = positions + chunks * rows;
    __global int *next = positions + 2 * chunks * rows;
    int behind = -1;
    #pragma unroll 4
    for (long chunk = chunks - 1; chunk >= 0; chunk--) {
        const int head = positions[chunk * rows + row];
        if (head < 0) continue;
        next[tail[chunk * rows + row]] = behind;
        behind = head;
    }
    positions[row] = behind;
}
