## A consumer of a wgmma kernel: a warpgroup multiplies the stages that have arrived, tile by tile, and stores its rows
## of C.  policy, problem, a, types, flush, split, registers, pair, wide, by_lines: as in wgmma.  In scope, from there:
## t; stage and phase; the addresses a_base, b_base, full_base and empty_base in local memory.
##
##   d<r>_<i>   the sums of the matrix unit: i-th sum of the work-item in the r-th block of 64 rows (see _wgmma_output)
##   s<r>_<i>   with `flush`: float totals, to which the d of every `flush` steps are added
##   above      the number of the tile's blocks of 64 rows above the consumer's first one
##   used       the stage of the step before, which _wgmma_steps releases
##   first      the first step of each `flush` steps, or of all; in it the matrix unit overwrites the sums d
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%namespace name="units" file="/gemm/_units.cl.mako"/>
<%namespace name="output" file="/gemm/_wgmma_output.cl.mako"/>
<%namespace name="fix_up" file="/gemm/_wgmma_fix_up.cl.mako"/>
<%namespace name="k_parts" file="/gemm/_k_parts.cl.mako"/>
<%namespace name="parted" file="/gemm/_wgmma_parts.cl.mako"/>
<%namespace name="steps" file="/gemm/_wgmma_steps.cl.mako"/>
<%namespace name="wgmma" file="/gemm/_wgmma.cl.mako"/>
<%namespace name="held" file="/gemm/_wgmma_registers.cl.mako"/>
<%def name="run()"><%
totals = "s" if flush else "d"
sums = [f"{r}_{i}" for r in range(policy.blocks) for i in range(policy.tile_n // 2)]
outputs = ["c"] + [f"e{i}" for i in range(len(problem.extras))]
# How C is stored (_wgmma_output): "" (pairs), "lines", "columns", or 16 bytes a lane: "octets" of halves, "fours" of
# floats.  `wide` is "rows" for octets and fours, else "columns" or "".
width = "lines" if by_lines else wide
if width and width not in ("lines", "columns"):
    width = "octets" if problem.c.elem.itemsize == 2 else "fours"
%>\
        const int lane = t % 32, above = t / 128 * ${policy.blocks};
${held.place() if registers else ''}
        float ${", ".join(f"d{i} = 0" for i in sums)};
% if flush:
        float ${", ".join(f"s{i}" for i in sums)};
% endif
% if split:
${parted.loop(policy, outputs, types, problem, a.depth)}
% elif problem.k_parts:
${k_parts.loop(policy, outputs, types, problem, a.depth)}
% else:
${units.loop(policy, outputs, types, problem, a.depth, False)}
% endif
            int used = stage;
## k_parts: the numbers of elements of k of the products of a ragged batch, some of which may be 0.
% if 0 in problem.k_parts and not flush:
            if (steps == 0) ${" = ".join(f"d{i}" for i in sums)} = 0;
% endif
% if flush:
            ${" = ".join(f"s{i}" for i in sums)} = 0;
% endif
            for (int first = 0; first < steps; first += ${flush or "steps"}) {
                for (int step = first; step < ${f"min(first + {flush}, steps)" if flush else "steps"}; ++step) {
                    ${held.multiply(steps.release) if registers else steps.multiply()}
                }
                ${wgmma.drain(policy)}
% if flush:
                ${"; ".join(f"s{i} += d{i}" for i in sums)};
% endif
            }
% if 0 in problem.k_parts:
            if (steps > 0) { ${steps.release()} }
% else:
            ${steps.release()}
% endif
% if split:
${fix_up.add_parts(policy, [totals + i for i in sums])}
% endif
${triangle.store(problem, policy, lambda: output.store(policy, totals, width, types['c'], registers, pair),
    lambda: output.each(policy, problem, totals, types['c'], registers))}
        }
</%def>
