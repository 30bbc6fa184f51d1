## C = epilogue(alpha * A @ B + beta * C) on the matrix instructions of CDNA GPUs (_mfma).  There is a work-group for
## each unit: a tile of a product, or a part of its k (_units).
##
##   tile of a group: waves_m x waves_n wavefronts, each of squares of side x side
##
##   +----+----+  wave_n        While a step of k is multiplied, the next one is copied from global memory
##   |    |    |                through registers to local memory, in chunks of 16 bytes along k (_chunks).
##   +----+----+  waves_n = 2   The elements of a lane's chunk are operands of several instructions.  The
##   |    |    |                order of k in the instructions is arbitrary if both operands have the same,
##   +----+----+                so that a lane can read adjacent elements.  The sums of a lane are in
##   wave_m, waves_m = 2        one column of a square, in the rows that instruction.row gives.
##
## A step has eight chunks along k.  The lanes of a wavefront read `slices` of them at a time, one for each `side`
## lanes, so a step takes 8 / slices passes.  The variable `lane` is the number of a lane in its slice.
##
## policy  MfmaPolicy       a, b  Lines: how an operand is copied to local memory
## instruction  MatrixInstruction: its operands, and which lane holds which elements
## split, tail  whether k is divided into parts (_split_k); whether a part of k is not a multiple of a step
## types        the C type of the elements of each operand
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="split_k" file="/gemm/_split_k.cl.mako"/>
<%namespace name="units" file="/gemm/_units.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%namespace name="chunks" file="/gemm/_chunks.cl.mako"/>
<%namespace name="steps" file="/gemm/_mfma_steps.cl.mako"/>
<%namespace name="mfma" file="/gemm/_mfma.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
rank = len(problem.batch)
depth, side = a.depth, instruction.side
squares = [(i, j) for i in range(policy.wave_m // side) for j in range(policy.wave_n // side)]
outputs = ["c"] + [f"e{i}" for i in range(len(problem.extras))]
%>
% for e in problem.elements:
${element.scalar(e)}
% endfor
${epilogue.arithmetic(problem.compute)}
${units.results(problem)}
${mfma.define(instruction, target.forced)}
${chunks.define(a)}
${chunks.define(b)}

${triangle.define(problem, policy)}\
% if split:
${split_k.define()}
% endif
__kernel __attribute__((reqd_work_group_size(${policy.group_size}, 1, 1))) ${mfma.attributes(target.forced)}
void ${kernel("gemm")}
{
    __local uint4 a_local[${policy.buffers * a.bytes // 16}], b_local[${policy.buffers * b.bytes // 16}];
    ${mfma.emulation_memory(instruction, target.forced, policy.group_size)}
% if split:
    __local uint is_last;
% endif
    const int t = get_local_id(0), lane = t % ${side}, slice = t % 64 / ${side}, wave = t / 64;
    // The wavefront's first row and column in the tile.
    const int rows_at = wave / ${policy.waves_n} * ${policy.wave_m},
        cols_at = wave % ${policy.waves_n} * ${policy.wave_n};
${units.loop(policy, ["a", "b"] + outputs, types, problem, depth, True)}
            a += k_first * a_col;
            b += k_first * b_row;
% if tail:
${units.declare_tail(depth)}
% endif
${chunks.place(a, "first_row", "m")}
${chunks.place(b, "first_col", "n")}
            sums_t ${", ".join(f"d{i}_{j} = 0" for i, j in squares)};
% if policy.buffers == 2:
            int buffer = 0;
% endif
            ${steps.load("0")}
            ${steps.store()}
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int step = 0; step < steps; ++step) {
                const bool more = step + 1 < steps;
                if (more) {
                    ${steps.load("step + 1")}
                }
% if not target.forced:
                #pragma unroll
% endif
                for (int pass = 0; pass < ${8 // instruction.slices}; ++pass) {
                    const int chunk = ${instruction.slices} * pass + slice;
                    ${steps.multiply()}
                }
% if policy.buffers == 2:
                buffer ^= 1;
% else:
                barrier(CLK_LOCAL_MEM_FENCE);
% endif
                if (more) {
                    ${steps.store()}
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
% if split:
${units.declare_product()}
            ${split_k.add_parts(Sums([f"d{i}_{j}.s{r:x}" for i, j in squares for r in range(instruction.sums)],
                problem.compute.real),
                           "t", policy.group_size, f"product * ({capture(triangle.area, problem)}) + tile",
                           "part", "splits")}
% endif
% for i, j in squares:
            {
                // Row `top` begins the square; the lane has sums of its column `col`.
                const long top = first_row + rows_at + ${i * side}, col = first_col + cols_at + ${j * side} + lane;
% for r in range(instruction.sums):
                {
                    const long row = top + ${instruction.row(r)};
                    if (row < m && col < n${triangle.only(problem, 'row', 'col')})
                        STORE(c + row * c_row + col * c_col, RESULT(d${i}_${j}.s${f"{r:x}"}, row, col));
                }
% endfor
            }
% endfor
        }
}
