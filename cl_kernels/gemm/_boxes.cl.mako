## Copies of an operand from global to local memory in boxes of lines of 128 bytes (see _wgmma), by the bulk copy engine
## of NVIDIA GPUs from Hopper on: one work-item requests a box, and the engine counts the bytes at a barrier
## (_barriers).
##
## A tensor map (see tensor_map) tells the engine the shape of an operand's matrices.  It starts at address 0, and has
## two dimensions more than a matrix, with strides of 16 bytes and of 2^35 bytes.  A box's coordinates along these two
## are the low and the high bits of the matrix's address, so that one map serves all matrices.  (NVIDIA's manual does
## not mention dimensions that overlap; the engine only adds.)  Elements outside of the matrix arrive as zeros.  A box
## that is wholly outside is never requested, because the engine would access address 0, which is not mapped.  If an
## operand has fewer lines than a tile, boxes have only these lines, and the rest of the tile is never written.
##
## lines: portable_gpu.ops.gemm.matrix.lines.Lines.  In scope, with NAME for a or b: NAME, the pointer to the product's
## matrix; NAME_map, its tensor map; m and n.

## barriers_published(): make initialised barriers visible to the copy engine.
<%def name="show()">
static inline void barriers_published(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
</%def>
## barrier_expect(at, bytes): arrive at a barrier, and announce the bytes that it will count in this phase.
<%def name="expect()">
static inline void barrier_expect(uint at, uint bytes)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }"
        :: "r"(at), "r"(bytes) : "memory");
}
</%def>

## map_acquire(map): make a tensor map that another kernel has written visible to the copy engine.  copy_box(...):
## request the box whose first element is element `along` of line `line` of the matrix at the address `matrix`.
<%def name="define()">
${capture(show).strip()}
static inline void map_acquire(__global const uint *map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");  // without it ptxas removes the wait
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
${capture(expect).strip()}
static inline void copy_box(uint to, __global const uint *map, int along, int line, ulong matrix, uint barrier)
{
    const int low = (int)(matrix >> 4 & 0x7fffffff), high = (int)(matrix >> 35);
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
[%0], [%1, {%2, %3, %4, %5}], [%6];"
                 :: "r"(to), "l"(map), "r"(along), "r"(line), "r"(low), "r"(high), "r"(barrier) : "memory");
}
</%def>

## Copy the boxes of one step of the main loop, from row (column) `first` and step `first_k` of k on, to the stage at
## `to`.  to, barrier: addresses in local memory.
##   k across the lines   each box has lines.depth steps of k, and 128 bytes of each
##   k along the lines    one box has all rows (columns), and 128 bytes of each
<%def name="copy(lines, to, first, first_k, barrier)">
<% n = lines.name %>
% for i in range(lines.boxes):
% if lines.across:
<% row = capture(first_of_box, first, lines.depth * i, "m" if n == "a" else "n") %>\
    copy_box(${to} + ${128 * lines.depth * i}, ${n}_map, ${row}, ${first_k}, (ulong)${n}, ${barrier});
% else:
    copy_box(${to}, ${n}_map, ${first_k}, (int)${first}, (ulong)${n}, ${barrier});
% endif
% endfor
</%def>

## An expression: first + offset, the row (column) at which a box begins; or `first` if the matrix, of `count` rows
## (columns), ends before that.
<%def name="first_of_box(first, offset, count)">\
% if offset:
(int)(${first} + ${offset} < ${count} ? ${first} + ${offset} : ${first})\
% else:
(int)${first}\
% endif
</%def>
