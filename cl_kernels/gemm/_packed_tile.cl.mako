## The register tile of packed and packed_whole on CPUs: the sum of `steps` outer products, for MR rows by NR columns of
## C.
##
##              b: NR columns (NV vectors of V)
##            +--------+--------+
##   a: MR    | c0_0   | c0_1   |    for each step: load NV vectors of b, and for each row
##   rows     | c1_0   | c1_1   |    broadcast one value of a and add its products.
##            | ...    |        |    Complex: four real products on vectors of re and of im.
##            +--------+--------+
##
##   define(problem, policy, triangle)
##       tile(a, a_packed, a_row, a_step, b, b_step, ahead, steps, parts, sum, part_stride, finish,
##            row, col, rows, skip, cols, c, c_row, c_col, alpha, beta, over, under, extras)
##   a        packed, or in place with two strides (rows beyond the edge repeat the last row)
##   b        with unit stride along columns; elements `ahead` bytes further are prefetched
##   sum      `parts` blocks of TILE sums of other steps, part_stride elements apart, which are added to those of the
##            tile.  Without `finish` the result is stored in the first block, and C is not written
##   finish   store rows [0, rows) and columns [skip, cols) at position (row, col) of C: see _packed_output
## direct: the operands whose elements have the type of the sums, and which may be read in place.
<%namespace name="output" file="/gemm/_packed_output.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%def name="define(problem, policy, triangle)"><%
    compute, c = problem.compute, problem.c.elem
    V, MR, NR = policy.vector, policy.item_m, policy.item_n
    NV, C = NR // V, compute.components
    names = ("re", "im")[:C]
    vec = f"{compute.real}{V}"
    accumulators = [f"c{i}_{j}_{x}" for i in range(MR) for x in names for j in range(NV)]
%>
#define TILE ${MR * NR * C}
#define VEC(p) (*(__global lanes${V}_u *)(p))
static inline void tile(
    __global const real_t *a, int a_packed, long a_row, long a_step,
    __global const real_t *b, long b_step, int ahead, int steps, int parts, __global real_t *sum, long part_stride,
        int finish,
    long row, long col, int rows, int skip, int cols,
    __global ${c.name}_t *c, long c_row, long c_col, value_t alpha, value_t beta
    ${', long over, long under' if triangle == 'any' else ''}${epilogue.typed(problem)})
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
% for i in range(MR):
    ${vec} ${', '.join(f'c{i}_{j}_{x} = 0' for x in names for j in range(NV))};
% endfor
    if (parts)
        for (int n = 0; n < TILE; n += ${64 * C // compute.itemsize}) PREFETCH(sum + n);
% if "a" in direct:
    if (!a_packed) {
% for i in range(MR):
        __global const real_t *a${i} = a + (${i} < rows ? ${i} : rows - 1) * a_row;
% endfor
        long at = 0;
${sum_steps(compute, policy, [f"a{i}[at]" for i in range(MR)], "at += a_step;")}\
    } else
% endif
    {
${sum_steps(compute, policy, [f"a[{i}]" for i in range(C * MR)], f"a += {C * MR};", 16 * MR * compute.itemsize)}\
    }
    for (int part = 0; part < parts; part++) {
        __global real_t *from = sum + part * part_stride;
% for n, name in enumerate(accumulators):
        ${name} += VEC(from + ${n * V});
% endfor
    }
    if (!finish) {
% for n, name in enumerate(accumulators):
        VEC(sum + ${n * V}) = ${name};
% endfor
        return;
    }
${output.store(problem, policy, accumulators, triangle)}\
}
</%def>

## The loop over all steps.  values: expressions of the values of A in a step, re before im.  advance: the statement
## that advances to those of the next step.  ahead: the distance in bytes at which A is prefetched, or 0.
<%def name="sum_steps(compute, policy, values, advance, ahead=0)"><%
    V, MR, NR, lane = policy.vector, policy.item_m, policy.item_n, compute.itemsize
    vec = f"{compute.real}{V}"
%>\
        for (int k = 0; k < steps;) {
% for line in range(0, MR * lane if ahead else 0, 64):
            PREFETCH((__global const char *)a + ${ahead + line});
% endfor
% for line in range(0, NR * lane, 64):
            PREFETCH((__global const char *)b + ahead${f" + {line}" if line else ""});
% endfor
% for x, name in enumerate(("re", "im")[:compute.components]):
% for j in range(NR // V):
            const ${vec} b${j}_${name} = *(__global const lanes${V}_u *)(b + ${x * NR + j * V});
% endfor
% endfor
% for i in range(MR):
            {
% for x, name in enumerate(("re", "im")[:compute.components]):
                const ${vec} ${name} = (${vec})(${values[x * MR + i]});
% endfor
% for j in range(NR // V):
                ${multiply_add(compute, i, j)}
% endfor
            }
% endfor
            b += b_step;
            ${advance}
            k++;  // not in the loop's head: see portable_gpu/runtime/pocl_bodies.py
        }
</%def>

## Add the products of a value of row i and of vector j of a step; those of booleans are `and`, and their sums `or`.
<%def name="multiply_add(compute, i, j)">\
% if compute.complex:
c${i}_${j}_re += re * b${j}_re; c${i}_${j}_im += re * b${j}_im; c${i}_${j}_re -= im * b${j}_im;
    c${i}_${j}_im += im * b${j}_re;\
% elif compute.name == "b8":
c${i}_${j}_re |= re & b${j}_re;\
% else:
c${i}_${j}_re += re * b${j}_re;\
% endif
</%def>
