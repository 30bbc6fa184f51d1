## Asynchronous copies (cp.async) of tiles of rows to local memory, for wgmma and wgmma_backward.  A row of D 16-bit
## elements has D / 64 parts of 128 bytes; a tile has the first parts of all its rows, one line of 128 bytes each, and
## then the next parts.  Chunk c (16 bytes) of line r is at place c ^ (r % 8) of the line, as wgmma reads it.  All
## work-items copy, 8 of them a line.
##
## In scope at the caller: t, the local id; NAME_data, the address of the array's next tile in global memory; NAME_row,
## its stride between rows in elements; NAME_base, the address of its tile in local memory, in bytes.  Parameters: name,
## the array's NAME; D; rows, of a tile; extent, C text: the elements of a row that exist; group, the number of
## work-items.
<%def name="define()">
// Copy `bytes` bytes, 0 or 16, and set the rest of 16 bytes to zero.
#define COPY_OR_ZERO(to, from, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory")
</%def>

## For wgmma: tiles of k and of v have N stages each, and each stage two barriers (mbarrier): x_full, whose phase
## changes when a tile has arrived, and x_empty, when all warps have read it.  x_stage, x_phase: of the tile that is
## read next.
<%def name="stages(N)">
// Arrive at the barrier when this work-item's copies so far have ended.
#define COPIES_ARRIVE(barrier) \
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory")
// Go to the next tile of x, which is k or v.
#define NEXT(x) if (++x##_stage == ${N}u) { x##_stage = 0; x##_phase ^= 1u; }
// This warp no longer reads the tile of x.
#define RELEASE(x) do { \
    if (lane == 0) barrier_arrive(local_address(x##_empty) + 8u * x##_stage); \
    NEXT(x); \
    } while (0)
// Wait until the tile of x has arrived.
#define AWAIT(x) barrier_wait(local_address(x##_full) + 8u * x##_stage, x##_phase)
</%def>

## place: declare where the work-item's chunk t % 8 of line t / 8 is (NAME_data in global memory, NAME_to in local), and
## how many of its 16 bytes exist in each part (NAME_size{part}).  copy: copy a tile to the stage at offset `ahead` (C
## text, bytes), and advance NAME_data to the next tile.  Rows from `left` on and elements beyond the extent are zeros.
<%def name="place(name, D, rows, extent, group)">\
    ${name}_data += t / 8u * ${name}_row + t % 8u * 8u;
% for part in range(D // 64):
    const uint ${name}_size${part} = ${64 * part}u + t % 8u * 8u < ${extent} ? 16 : 0;
% endfor
    const uint ${name}_to = ${name}_base + t / 8u * 128u + ((t % 8u ^ t / 8u % 8u) << 4);
</%def>
<%def name="copy(name, D, rows, extent, group, left, ahead='')">\
            HIDE_VALUE("+l", ${name}_data);
% for row in range(0, rows, group // 8):
% for part in range(D // 64):
## If the last rows are fewer than the group copies, its last work-items copy nothing.
            ${f"if (t < {8 * (rows - row)}u) " if row + group // 8 > rows else ""}\
COPY_OR_ZERO(${name}_to${ahead} + ${128 * row + part * 128 * rows}u, ${name}_data + ${64 * part},
                t / 8u + ${row}u < ${left} ? ${name}_size${part} : 0);
% endfor
            ${name}_data += ${min(group // 8, rows - row)} * ${name}_row;
% endfor
</%def>
