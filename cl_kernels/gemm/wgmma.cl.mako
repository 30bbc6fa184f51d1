## C = epilogue(alpha * A @ B + beta * C) on the warpgroup matrix instructions of Hopper GPUs (_wgmma).
##
##        work-items of a group                 local memory, `stages` times
##   0    | consumer 0: blocks x 64 rows of C |      +---------+---------+
##   128  | consumer 1: the rows below        | <--- | A lines | B lines | <-+  full, empty: barriers
##   ...  | producer: copies the lines        | -----+---------+---------+---+  of each stage
##
## The producer runs ahead of the consumers, also from one tile of C to the next: group g of G computes
## the units g, g + G, g + 2 G ... of the launch (see _units).  A copy arrives at a barrier when it is
## done.  The producer is a warpgroup (see _lines), or a work-item that starts the copy engine (see
## _boxes).
##
## policy  WgmmaPolicy      a, b  Lines: how an operand is copied to local memory
## kind    f16, bf16 or tf32: the instruction's element type
## pieces  the number of pieces whose sum a value is.  In memory a row has k elements of the first piece, then k of the
##         next.  Each piece of a step of k has a stage
## products  products[i]: the pairs (piece of A, piece of B) that are multiplied after pieces 0 to i have arrived
## flush   steps of k after which the sums of the matrix unit, which truncates, are added to float
##         registers, whose additions round; 0: never
## split   whether groups share the steps of k of tiles (see _wgmma_parts)
## tail    whether k, or the k of a part, is not a multiple of a step
## pair, wide, by_lines  how C is stored (see _units and _wgmma_output)
## types   the C type of each operand's elements
## registers  whether A goes through registers (see _wgmma_registers)
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="barriers" file="/gemm/_barriers.cl.mako"/>
<%namespace name="units" file="/gemm/_units.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%namespace name="lines" file="/gemm/_lines.cl.mako"/>
<%namespace name="boxes" file="/gemm/_boxes.cl.mako"/>
<%namespace name="line_by_line" file="/gemm/_wgmma_lines.cl.mako"/>
<%namespace name="chunks" file="/gemm/_wgmma_chunks.cl.mako"/>
<%namespace name="producer" file="/gemm/_wgmma_producer.cl.mako"/>
<%namespace name="consumer" file="/gemm/_wgmma_consumer.cl.mako"/>
<%namespace name="parted" file="/gemm/_wgmma_parts.cl.mako"/>
<%namespace name="wgmma" file="/gemm/_wgmma.cl.mako"/>
<%namespace name="held" file="/gemm/_wgmma_registers.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
stages = policy.stages
# The arrivals at the barrier of a stage when it is full: of copies, and of work-items that copy through registers.
arrivals = 1 if policy.bulk else policy.copiers * (2 if a.by_registers != b.by_registers else 1)
%>
% for e in problem.elements:
${element.scalar(e)}
% endfor
${epilogue.arithmetic(problem.compute)}
${units.define(problem, pair, bool(wide and problem.extras))}
${barriers.define()}
${chunks.exchange()}
${wgmma.instructions(policy, kind, int(a.across), int(b.across))}
${held.define(policy, kind) if registers else ''}
${boxes.define() if policy.bulk else lines.define()}

${triangle.define(problem, policy)}\
% if split:
${parted.define()}
% endif
__kernel __attribute__((reqd_work_group_size(${policy.group_size}, 1, 1)))
void ${kernel("gemm")}
{
    __local uint a_local[${stages * a.bytes // 4}] __attribute__((aligned(1024)));
    __local uint b_local[${stages * b.bytes // 4}] __attribute__((aligned(1024)));
    __local ulong full[${stages}], empty[${stages}];
    const uint a_base = local_address(a_local), b_base = local_address(b_local);
    const uint full_base = local_address(full), empty_base = local_address(empty);
% if split:
    __local int ticket;
    __local ulong stored[1], ready[1];
    const uint stored_base = local_address(stored), ready_base = local_address(ready);
% endif
% if by_lines:
${line_by_line.scratch(policy)}
% endif
    const int t = get_local_id(0);
${producer.acquire_maps(policy)}\
${barriers.start(policy, arrivals, 4 * policy.consumers)}
% if split:
${parted.take_ticket(policy)}
% endif
% if policy.bulk:
    barriers_published();
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
% if split:
${parted.share(a.depth)}
% endif
    // The stage that is copied or multiplied next, and the parity of its barriers' phases, which changes in each round.
    int stage = 0;
    uint phase = 0;
    if (t >= ${128 * policy.consumers}) {
${producer.boxes() if policy.bulk else producer.lines()}
% if split:
${parted.exchange(128 * policy.consumers, policy.copiers)}
% endif
    } else {
${consumer.run()}
    }
}
