## The producer of wgmma: it copies A and B, stage by stage, and is ahead of the consumers by up to the number of
## stages.  policy, problem, a, b, types, pieces, split, tail: as in wgmma.  In scope, from there: t, stage, phase;
## a_base, b_base, full_base, empty_base.
##
##   lines()   a warpgroup copies chunks of 16 bytes (see _lines, and _gathered_lines for operands that have a reader);
##             if values have several pieces, both operands have a reader, or neither has
##   boxes()   one work-item starts copies by the copy engine (see _boxes)
##   acquire_maps(policy)   one work-item acquires the tensor maps; called early, because an acquisition takes long
<%namespace name="by_boxes" file="/gemm/_boxes.cl.mako"/>
<%namespace name="by_lines" file="/gemm/_lines.cl.mako"/>
<%namespace name="gathered" file="/gemm/_gathered_lines.cl.mako"/>
<%namespace name="k_parts" file="/gemm/_k_parts.cl.mako"/>
<%namespace name="parted" file="/gemm/_wgmma_parts.cl.mako"/>
<%namespace name="units" file="/gemm/_units.cl.mako"/>

## Arrive at a barrier when this work-item's copies are done.  A proxy fence makes operands that were stored from
## registers visible to the matrix unit, and the work-item arrives explicitly; asynchronous copies arrive by themselves.
<%def name="arrive(barrier)">
% if a.by_registers or b.by_registers:
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                barrier_arrive(${barrier});
% endif
% if not (a.by_registers and b.by_registers):
                COPIES_ARRIVE(${barrier});
% endif
</%def>

<%def name="lines()"><% copier = lambda operand: gathered if operand.reader else by_lines %>
        const int chunk = t % 8, line = t / 8 % ${policy.copiers // 8};
        const uint place = line * 128 + ((chunk ^ (line & 7)) << 4);  // in a stage, in bytes; the swizzle: see _wgmma
% if split:
${parted.loop(policy, ["a", "b"], types, problem, a.depth, True, tail)}
% elif problem.k_parts:
${k_parts.loop(policy, ["a", "b"], types, problem, a.depth)}
% else:
${units.loop(policy, ["a", "b"], types, problem, a.depth, False)}
% endif
% for operand in (a, b):
% if not operand.reader:
            ${operand.name} += k_first * ${operand.name}_${operand.k_stride};
% endif
% endfor
% if tail:
${units.declare_tail(a.depth)}
% endif
${copier(a).place(a, "first_row", "m")}
${copier(b).place(b, "first_col", "n")}
## a_advance, b_advance: the elements by which pointers advance after a copy; operands with a reader have none.
% if pieces > 1:
% if not a.reader:
            const long a_piece = a_row / ${pieces}, b_piece = b_col / ${pieces};  // distances of pieces, in elements
% endif
            for (int piece = 0, step = 0; step < steps;
                piece = piece == ${pieces - 1} ? 0 : piece + 1, step += piece == 0) {
% if not a.reader:
                const long a_advance = piece == ${pieces - 1} ? ${a.depth} - ${pieces - 1} * a_piece : a_piece;
                const long b_advance = piece == ${pieces - 1} ? ${a.depth} - ${pieces - 1} * b_piece : b_piece;
% endif
% else:
% if not (a.reader or b.reader):
            const long a_advance = ${a.depth}l * ${"a_col" if a.across else "1"},
                b_advance = ${a.depth}l * ${"b_row" if b.across else "1"};
% endif
% for x in (x for x in (a, b) if not x.reader and (a.reader or b.reader)):
            const long ${x.name}_advance = ${a.depth}l * ${f"{x.name}_{x.k_stride}" if x.across else "1"};
% endfor
            for (int step = 0; step < steps; ++step) {
% endif
                barrier_wait(empty_base + 8 * stage, phase ^ 1);
                const uint to_a = a_base + stage * ${a.bytes} + place, to_b = b_base + stage * ${b.bytes} + place;
% if tail:
                if (step == steps - 1 && tail < ${a.depth}) {
                    ${copier(a).copy_tail(a, "to_a", "a_advance")}
                    ${copier(b).copy_tail(b, "to_b", "b_advance")}
                } else
% endif
                {
                    ${copier(a).copy(a, "to_a", "a_advance")}
                    ${copier(b).copy(b, "to_b", "b_advance")}
                }
                ${arrive("full_base + 8 * stage")}
                if (++stage == ${policy.stages}) { stage = 0; phase ^= 1; }
            }
        }
</%def>

<%def name="boxes()">
        if (t == ${128 * policy.consumers}) {
% if split:
${parted.loop(policy, ["a", "b"], types, problem, a.depth, True)}
% elif problem.k_parts:
${k_parts.loop(policy, ["a", "b"], types, problem, a.depth)}
% else:
${units.loop(policy, ["a", "b"], types, problem, a.depth, False)}
% endif
            const int k_last = (int)k_first + steps * ${a.depth};
            for (int at = (int)k_first; at < k_last; at += ${a.depth}) {
% for piece in range(pieces):
                barrier_wait(empty_base + 8 * stage, phase ^ 1);
                barrier_expect(full_base + 8 * stage, box_bytes);
                ${by_boxes.copy(a, f"a_base + stage * {a.bytes}", "first_row",
                    f"at + {piece} * (int)(a_row / {pieces})" if pieces > 1 else "at", "full_base + 8 * stage")}
                ${by_boxes.copy(b, f"b_base + stage * {b.bytes}", "first_col",
                    f"at + {piece} * (int)(b_col / {pieces})" if pieces > 1 else "at", "full_base + 8 * stage")}
                if (++stage == ${policy.stages}) { stage = 0; phase ^= 1; }
% endfor
            }
        }
        }
${'        WARP_BARRIER();' if split else ''}
</%def>

<%def name="acquire_maps(policy)">\
% if policy.bulk:
    if (t == ${128 * policy.consumers}) {
        map_acquire(a_map);
        map_acquire(b_map);
    }
% endif
</%def>
