## The stages of mma in local memory: steps of k are copied `stages` - 2 steps ahead, and multiplied when they have
## arrived.  Each stage has a barrier `full` and a barrier `empty`, of 8 bytes each, at full_base and empty_base
## (_barriers).
##
## policy, a, b: as in mma.  In scope: step, steps, tail; stage and phase, of the step that is multiplied; stage_ahead
## and phase_ahead, of the step that is copied; place_a and place_b, where the work-item's first copied chunk is in a
## stage, in bytes; a_advance and b_advance, the elements by which pointers advance after a copy; rows_at and
## cols_at, the warp's first row and column in the tile.
<%namespace name="lines" file="/gemm/_lines.cl.mako"/>
<%namespace name="mma" file="/gemm/_mma.cl.mako"/>

## Copy the step that is `stages` - 2 steps ahead of this one.
<%def name="copy_ahead()">
                if (step + ${policy.stages - 2} < steps) {
                    barrier_wait(empty_base + 8 * stage_ahead, phase_ahead);
                    const uint to_a = a_base + stage_ahead * ${a.bytes} + place_a,
                        to_b = b_base + stage_ahead * ${b.bytes} + place_b;
                    if (step + ${policy.stages - 1} == steps && tail < ${a.depth}) {
                        ${lines.copy_tail(a, "to_a", "a_advance")}
                        ${lines.copy_tail(b, "to_b", "b_advance")}
                    } else {
                        ${lines.copy(a, "to_a", "a_advance")}
                        ${lines.copy(b, "to_b", "b_advance")}
                    }
                    COPIES_ARRIVE(full_base + 8 * stage_ahead);
                    if (++stage_ahead == ${policy.stages}) { stage_ahead = 0; phase_ahead ^= 1; }
                }
</%def>

## Wait until the current stage is full, and set a_at and b_at to the warp's rows and columns of it.
<%def name="wait_for_stage()">
                barrier_wait(full_base + 8 * stage, phase);
                a_at = (const __local char *)a_local + stage * ${a.bytes} + 128 * rows_at;
                b_at = (const __local char *)b_local + stage * ${b.bytes} + 128 * cols_at;
</%def>

## Make the next stage current, and wait for it if there is a step.
<%def name="next_stage()">
                if (++stage == ${policy.stages}) { stage = 0; phase ^= 1; }
                if (step + 1 < steps) {
                    ${wait_for_stage()}
                }
</%def>

## Declare the fragments, and load those of the first step (names as in _mma).
<%def name="first_fragments(forms)">\
            const __local char *a_at, *b_at;
% for name in ("a0", "a1", *(f"b{j}" for j in range(policy.pairs))):
${mma.declare(name)}
% endfor
            ${wait_for_stage()}
${mma.refill(a, forms["a"], "a0", 0)}
% for j in range(policy.pairs):
${mma.refill(b, forms["b"], f"b{j}", 16 * j)}
% endfor
</%def>
