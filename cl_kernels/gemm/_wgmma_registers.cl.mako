## A step of a wgmma kernel whose A is tf32 with k across its lines.  The instruction reads 4-byte elements
## from local memory only with k along the lines, so A goes from local memory through registers.
##
## Of 64 rows and 8 steps of k, lane 4g + q of warp w gives the instruction (PTX ISA, wgmma, m64k8)
##   a0, a1   rows 16w + g and 16w + g + 8 of its tile, step q       a2, a3   those rows, step q + 4
## These rows may be any rows of C.  With g = 4 g2 + 2 g1 + g0 and h = 0, 1 for a0, a1 they are
##   row = 32 (w / 2) + 16 g1 + 8 (w % 2) + 4 g2 + 2 g0 + h
## so a lane reads two adjacent rows, 16 lanes read all the banks, and adjacent rows of C are stored together.
##
## The registers that hold A for a wgmma ("held") must not change until it is done, so each of the four
## wgmmas of a step has its own.  While A for the next one is read, two wgmmas are in flight, or one if
## the sums leave too few registers.
<%namespace name="wgmma" file="/gemm/_wgmma.cl.mako"/>

<%def name="define(policy, kind)">
#define READ_PAIR(x, y, from) asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(from) : "memory")
% for r in range(policy.blocks):
#define WGMMA_HELD${r}(x, y, z, w, b, accumulate) \
    ${wgmma.product(policy, kind, r, '"r"(x), "r"(y), "r"(z), "r"(w)', "")}
% endfor
</%def>

## Declare held_at, the place of this work-item's pairs of rows in stage 0, in bytes of local memory.  A block of 64
## rows has two halves of 4096 bytes, each of 32 lines (steps of k) of 32 rows.  held_line and held_chunk: the line
## (step q) and the chunk (four rows) of the pair.  Chunk c of line l is stored at c ^ l (see _wgmma).
<%def name="place()">
        const uint held_line = t % 4, held_chunk = lane / 16 + t / 32 % 2 * 2 + lane / 8 % 2 * 4;
        const uint held_at = a_base + above * 8192 + t / 64 % 2 * 4096 + held_line * 128
            + ((held_chunk ^ held_line) << 4) + lane / 4 % 2 * 8;
</%def>

## One step of the main loop (32 steps of k, by four instructions of 8), in the place of `multiply` of _wgmma_steps.
## release: the def that frees the stage of the step before.  low, high: the addresses of the lane's pairs in the lines
## q and q + 4 of the first eight.
<%def name="multiply(release)">
<% in_flight = 1 if policy.blocks * policy.tile_n > 192 else 2 %>
                    const uint low = held_at + stage * ${a.bytes}, high = (low ^ 64) + 512;
                    const ulong at_b = DESCRIPTOR(b_base + stage * ${b.bytes});
                    barrier_wait(full_base + 8 * stage, phase);
% if not policy.bulk:
                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
% endif
% for i in range(4):
                    {
% for r in range(policy.blocks):
                        uint x${r}, y${r}, z${r}, w${r};
                        READ_PAIR(x${r}, y${r}, low + ${8192 * r + 1024 * i});
                        READ_PAIR(z${r}, w${r}, high + ${8192 * r + 1024 * i});
% endfor
                        WGMMA_FENCE();
% for r in range(policy.blocks):
                        WGMMA_HELD${r}(x${r}, y${r}, z${r}, w${r}, at_b + ${i} * B_STEP,
                            ${"1" if i else "step - first"});
% endfor
                        WGMMA_COMMIT();
                        WGMMA_WAIT(${in_flight});
                    }
## Now only instructions of this step are in flight.
% if i == in_flight:
                    if (step) { ${release()} }
% endif
% endfor
                    used = stage;
                    if (++stage == ${policy.stages}) { stage = 0; phase ^= 1; }
</%def>
