## Copies of tiles to lines of local memory (see _warpgroup) by asynchronous copies of all work-items, as in _copies.
<%def name="define()">
#define COPY_OR_ZERO(to, from, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory")
</%def>

## For wgmma: tiles of k and of v have N stages each.
<%def name="stages(N)">
#define COPIES_ARRIVE(barrier) \
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory")
// The next tile of k or v.
#define NEXT(x) if (++x##_stage == ${N}u) { x##_stage = 0; x##_phase ^= 1u; }
#define RELEASE(x) do { \
    if (lane == 0) barrier_arrive(local_address(x##_empty) + 8u * x##_stage); \
    NEXT(x); \
    } while (0)
// Wait for a tile.
#define AWAIT(x) barrier_wait(local_address(x##_full) + 8u * x##_stage, x##_phase)
</%def>

## Declare the place of a work-item's chunks; copy a tile to the stage at offset `ahead`.  Rows from `left` on, and
## elements beyond the extent, are zeros.
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
