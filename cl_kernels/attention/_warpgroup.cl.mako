## The products of attention by warpgroup matrix instructions (PTX ISA, wgmma; marked for
## portable_gpu.runtime.retarget), and the producer's copies.  Names as in wgmma.
##
## A tile of rows of D elements is stored in lines of 128 bytes, 64 elements of a row each: all rows' first 64 elements,
## and then the others.  Chunk x of line r, of 16 bytes, is at x ^ (r & 7).  A descriptor has, in units of 16 bytes, the
## start, the distance of 64 columns of v, that of groups of 8 lines (64), and the code of the swizzle.
<%!
names = lambda x, columns: [f"{x}0_{j}_{r}" for j in range(columns // 8) for r in range(4)]
tied = lambda x, columns: ", ".join(f'"+f"({name})' for name in names(x, columns))
places = lambda first, count: "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"
%>

<%def name="define(kind, TK, TM, N)">
#define COPY_OR_ZERO(to, from, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory")
#define COPIES_ARRIVE(barrier) \
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(barrier) : "memory")
#define DESCRIPTOR(address, columns) \
    ((1ul << 62) | (64ul << 32) | ((ulong)(columns) << 16) | (((address) & 0x3ffff) >> 4))
#define WGMMA_FENCE() asm volatile("//@sm_90a wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() asm volatile("//@sm_90a wgmma.commit_group.sync.aligned;" ::: "memory")
#define SCORES ${tied("s", TK)}
#define RESULTS ${tied("o", DV)}
#define SCORES_WAIT(pending) \
    asm volatile("//@sm_90a wgmma.wait_group.sync.aligned " #pending ";" : SCORES :: "memory")
#define RESULTS_WAIT() asm volatile("//@sm_90a wgmma.wait_group.sync.aligned 0;" : RESULTS :: "memory")
#define WGMMA_SCORES(a, b, accumulate) \
    asm volatile("//@sm_90a { .reg .pred p; setp.ne.b32 p, " #accumulate ", 0; " \
        "wgmma.mma_async.sync.aligned.m64n${TK}k16.f32.${kind}.${kind} ${places(0, TK // 2)}, " \
        "%${TK // 2}, %${TK // 2 + 1}, p, 1, 1, 0, 0; }" : SCORES : "l"(a), "l"(b) : "memory")
#define WGMMA_RESULTS(a, b) \
    asm volatile("//@sm_90a { .reg .pred p; setp.ne.b32 p, 1, 0; " \
        "wgmma.mma_async.sync.aligned.m64n${DV}k16.f32.${kind}.${kind} ${places(0, DV // 2)}, " \
        "${places(DV // 2, 4)}, %${DV // 2 + 4}, p, 1, 1, 1; }" \
        : RESULTS : "r"(a##_0), "r"(a##_1), "r"(a##_2), "r"(a##_3), "l"(b) : "memory")
// The next tile of k or v.
#define NEXT(x) if (++x##_stage == ${N}u) { x##_stage = 0; x##_phase ^= 1u; }
#define RELEASE(x) do { \
    if (lane == 0) barrier_arrive(local_address(x##_empty) + 8u * x##_stage); \
    NEXT(x); \
    } while (0)
// Wait for a tile, and show it to the matrix unit.
#define AWAIT(x) do { \
    barrier_wait(local_address(x##_full) + 8u * x##_stage, x##_phase); \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); \
    } while (0)
</%def>

## Start s = q k'
<%def name="scores()">\
        {
            AWAIT(k);
            const ulong at_k = DESCRIPTOR(k_base + k_stage * ${2 * policy.keys * DQ}u, 512);
            WGMMA_FENCE();
% for s in range(DQ // 16):
            WGMMA_SCORES(at_q + ${s // 4 * 8 * policy.queries + s % 4 * 2},
                at_k + ${s // 4 * 8 * policy.keys + s % 4 * 2}, ${int(s > 0)});
% endfor
            WGMMA_COMMIT();
        }
</%def>

## Start o += p v
<%def name="results()">\
        {
            AWAIT(v);
            const ulong at_v = DESCRIPTOR(v_base + v_stage * ${2 * policy.keys * DV}u, ${8 * policy.keys});
            WGMMA_FENCE();
% for j in range(0, policy.keys // 8, 2):
            WGMMA_RESULTS(p0_${j}, at_v + ${64 * j});
% endfor
            WGMMA_COMMIT();
        }
</%def>

## Copy a tile of rows to the lines at `to`, and go on to the next; rows from `left` on, and elements beyond the extent,
## are zeros.  A pass of the warp is four rows.
<%def name="copy(name, D, rows, extent, left, to)">\
            {
                const uint even = ${name}_base + ${to} + line * 128u + ((chunk ^ line) << 4), odd = (even ^ 64u) + 512u;
% for x in range(D // 64):
                const uint size${x} = ${64 * x}u + chunk * 8u < ${extent} ? 16 : 0;
% endfor
#pragma unroll 4
                for (uint r = 0; r < ${rows}u; r += 8u) {
% for place, ahead in (("even", 0), ("odd", 4)):
% for x in range(D // 64):
                    COPY_OR_ZERO(${place} + r * 128u + ${x * 128 * rows}u, ${name}_from + ${64 * x},
                        r + line + ${ahead}u < ${left} ? size${x} : 0);
% endfor
                    ${name}_from += 4 * ${name}_row;
% endfor
                }
            }
</%def>
