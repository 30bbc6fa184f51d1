## Asynchronous copies (cp.async) of tiles of rows to local memory, for wgmma and wgmma_backward.  A tile is in lines of
## 128 bytes (see _warpgroup); all work-items copy, 8 of them a line.  Parameters and names as in _copies.
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

## place: declare where this work-item's chunks begin (NAME_in, NAME_to) and their bytes (NAME_size).  copy: copy a tile
## to the stage at offset `ahead`, and advance to the next tile.  Rows from `left` on, and elements beyond the extent,
## are zeros.
<%def name="place(name, D, rows, extent, group)">\
    ${name}_in += t / 8u * ${name}_row + t % 8u * 8u;
% for x in range(D // 64):
    const uint ${name}_size${x} = ${64 * x}u + t % 8u * 8u < ${extent} ? 16 : 0;
% endfor
    const uint ${name}_to = ${name}_base + t / 8u * 128u + ((t % 8u ^ t / 8u % 8u) << 4);
</%def>
<%def name="copy(name, D, rows, extent, group, left, ahead='')">\
            COMPUTE_AGAIN("+l", ${name}_in);
% for row in range(0, rows, group // 8):
% for x in range(D // 64):
            ${f"if (t < {8 * (rows - row)}u) " if row + group // 8 > rows else ""}\
COPY_OR_ZERO(${name}_to${ahead} + ${128 * row + x * 128 * rows}u, ${name}_in + ${64 * x},
                t / 8u + ${row}u < ${left} ? ${name}_size${x} : 0);
% endfor
            ${name}_in += ${min(group // 8, rows - row)} * ${name}_row;
% endfor
</%def>
