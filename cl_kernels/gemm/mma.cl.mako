## C = epilogue(alpha * A @ B + beta * C) in double precision on the matrix instructions of NVIDIA's warps.  There is a
## work-group for each unit: a tile of a product, or a part of its k (_units).
##
##   tile of a group: warps_m x warps_n warps, each of blocks x pairs squares of 16 x 16
##
##          columns 4q .. 4q+3 of lane % 4 = q         All work-items copy lines of A and B to local
##          +--+--+--+--+                              memory, some steps of k ahead.  Each warp
##   2g     |  |  |  |  |   lane / 4 = g               then reads its fragments and multiplies.  It
##   2g + 1 |  |  |  |  |                              reads a step's first fragments one step ahead.
##          +--+--+--+--+                              The picture is one square of a warp.
##
## Rows, columns and steps of k may be assigned to the instruction's indices in any way that both operands
## share.  They are assigned so that a lane reads and stores adjacent elements.
##
## policy  MmaPolicy
## a, b    Lines: how an operand is copied to local memory
## pair, wide, by_lines  how C is stored (see _mma_output)     types  the C type of the elements of each operand
## store_kinds  the kinds of stores of C, if there are several; the argument store_kind selects one (see _mma_stores)
##
## All shapes share this text: the last step may be short, and k may be whole or in parts of at least one step.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="split_k" file="/gemm/_split_k.cl.mako"/>
<%namespace name="barriers" file="/gemm/_barriers.cl.mako"/>
<%namespace name="units" file="/gemm/_units.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%namespace name="warps" file="/gemm/_warp_exchange.cl.mako"/>
<%namespace name="lines" file="/gemm/_lines.cl.mako"/>
<%namespace name="staged" file="/gemm/_mma_stages.cl.mako"/>
<%namespace name="mma" file="/gemm/_mma.cl.mako"/>
<%namespace name="line_by_line" file="/gemm/_mma_lines.cl.mako"/>
<%namespace name="output" file="/gemm/_mma_output.cl.mako"/>
<%namespace name="stores" file="/gemm/_mma_stores.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
rank = len(problem.batch)
stages, depth, group = policy.stages, a.depth, policy.group_size
distance = stages - 2  # the steps of k that copies are ahead: two less than stages, as warps may be two steps apart
forms = {x.name: mma.module.form_of(a, b, x) for x in (a, b)}
sums = [f"d{i}_{j}_{r}" for i in range(policy.blocks) for j in range(2 * policy.pairs) for r in range(4)]
outputs = ["c"] + [f"e{i}" for i in range(len(problem.extras))]
%>
% for e in problem.elements:
${element.scalar(e)}
% endfor
${epilogue.arithmetic(problem.compute)}
${units.define(problem, pair)}
${barriers.define()}
${mma.instructions(target.matrix_units == 'wgmma')}
${lines.define()}
% if wide or by_lines:
${warps.define()}
% endif

${triangle.define(problem, policy)}\
${split_k.define()}
__kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void ${kernel("gemm")}
{
    __local double2 a_local[${stages * a.bytes // 16}] __attribute__((aligned(128)));
    __local double2 b_local[${stages * b.bytes // 16}] __attribute__((aligned(128)));
    __local ulong full[${stages}], empty[${stages}];
    const uint a_base = local_address(a_local), b_base = local_address(b_local);
    const uint full_base = local_address(full), empty_base = local_address(empty);
    __local uint is_last;
% if by_lines:
${line_by_line.scratch(policy)}
% endif
    const int t = get_local_id(0), lane = t % 32, warp = t / 32, g = lane / 4, q = lane % 4;
${barriers.start(policy, group, group // 32)}
    barrier(CLK_LOCAL_MEM_FENCE);
    const int chunk = t % 8, line = t / 8;
    // In bytes of local memory: place_NAME, of this work-item's first copied chunk in a stage; NAME_lane: see _mma.
% for name, form in forms.items():
    const uint place_${name} = 128 * line + ((chunk ^ ${mma.module.swizzle(form, "line")}) << 4),
        ${name}_lane = ${mma.module.lane(form)};
% endfor
    // The warp's first row and column in the tile.
    const int rows_at = warp / ${policy.warps_n} * ${16 * policy.blocks},
        cols_at = warp % ${policy.warps_n} * ${16 * policy.pairs};
    // The stages that are multiplied and copied next, and the parities of the phases for which they wait.
    int stage = 0, stage_ahead = 0;
    uint phase = 0, phase_ahead = 1;
${units.loop(policy, ["a", "b"] + outputs, types, problem, depth, True, True)}
            a += k_first * a_col;
            b += k_first * b_row;
${units.declare_tail(depth)}
${lines.place(a, "first_row", "m")}
${lines.place(b, "first_col", "n")}
            const long a_advance = ${depth}l * ${"a_col" if a.across else "1"},
                b_advance = ${depth}l * ${"b_row" if b.across else "1"};
% for i in range(policy.blocks):
            double ${", ".join(f"d{i}_{j}_{r} = 0" for j in range(2 * policy.pairs) for r in range(4))};
% endfor
            for (int step = ${-distance}; step < 0; ++step) {
                ${staged.copy_ahead()}
            }
${staged.first_fragments(forms)}\
            for (int step = 0; step < steps; ++step) {
                ${staged.copy_ahead()}
                const int used = stage;
                ${mma.step(policy, a, b, capture(staged.next_stage))}
                if (lane == 0) barrier_arrive(empty_base + 8 * used);
            }
            if (parts > 1) {
${units.declare_product(True)}
            ${split_k.add_parts(Sums(sums, "double"), "t", group, "product * split_tiles + tile - unsplit", "part",
                "splits")}
            }
% if store_kinds:
${stores.store(policy, problem, store_kinds, pair, wide, types['c'])}
% elif by_lines:
${line_by_line.store(policy, problem, types['c'])}
% else:
${triangle.store(problem, policy, lambda: output.store(policy, pair, wide, types['c']),
    lambda: output.each(policy, problem, types['c']))}
% endif
        }
}
