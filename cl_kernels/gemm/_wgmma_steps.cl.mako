## A step of k of a consumer of wgmma, if both operands are read from local memory.
##
## policy, a, b, pieces, products: as in wgmma.  In scope: above, first, step and used (_wgmma_consumer); stage and
## phase; a_base, b_base, full_base and empty_base, addresses in local memory.

## One step: multiply the stages that have arrived, one for each piece, and release those of the step before.  The first
## instruction of the first step ignores the previous sums: its `accumulate` is `step - first`, which is then 0.
<%def name="multiply()">
<%
all_pairs = [pair for pairs in products for pair in pairs]
first_instruction = (*all_pairs[0], 0)
%>\
                    const ulong at_a = DESCRIPTOR(a_base + stage * ${a.bytes} + above * 8192),
                        at_b = DESCRIPTOR(b_base + stage * ${b.bytes});
% for piece, pairs in enumerate(products):
                    barrier_wait(full_base + 8 * (stage + ${piece}), phase);
% if not policy.bulk:
                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
% endif
                    WGMMA_FENCE();
## Piece x of A and piece y of B are in the stages x and y of this step; 512 units of 16 bytes are 64 lines.
% for x, y in pairs:
% for i in range(4):
% for r in range(policy.blocks):
                    WGMMA${r}(at_a + ${x * a.bytes // 16 + 512 * r} + ${i} * A_STEP,
                        at_b + ${y * b.bytes // 16} + ${i} * B_STEP,
                        ${"step - first" if (x, y, i) == first_instruction else "1"});
% endfor
% endfor
% endfor
                    WGMMA_COMMIT();
% if piece == 0:
                    WGMMA_WAIT(1);
                    if (step) { ${release()} }
% endif
% endfor
                    used = stage;
                    stage += ${pieces};
                    if (stage == ${policy.stages}) { stage = 0; phase ^= 1; }
</%def>

## Arrive at the `empty` barriers of the stages of the step before, which begin at stage `used`.
<%def name="release()">
% for piece in range(pieces):
                    if (lane == 0) barrier_arrive(empty_base + 8 * (used + ${piece}));
% endfor
</%def>
