## The register tile: `steps` steps of an outer product, MR rows by NR columns of C.
##
##              b: NR columns (NV vectors of V)
##            +--------+--------+
##   a: MR    | c0_0   | c0_1   |    for each step: load NV vectors of b, and for each row
##   rows     | c1_0   | c1_1   |    broadcast one value of a and add its products.
##            | ...    |        |    Complex: four real products on vectors of re and of im.
##            +--------+--------+
##
##   define(problem, policy, packing)
##       tile(a, a_row, a_step, b, b_step, steps, parts, sum, part_stride, finish,
##            row, col, rows, skip, cols, c, c_row, c_col, alpha, beta, extras)
##   sum      accumulators of earlier steps: `parts` blocks of TILE values, part_stride apart, are
##            added; unless `finish`, the sums go to the first one.
##   finish   store rows [0, rows) and columns [skip, cols) at place (row, col) of C.
## packing: portable_gpu.ops.gemm.packed.plan.Packing.  An operand that is not packed is read where it lies: a
## with two strides (rows beyond the edge repeat the last), b with unit stride along columns.
<%namespace name="output" file="/gemm/_packed_output.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%def name="define(problem, policy, packing)"><%
    compute, c = problem.compute, problem.c.elem
    V, MR, NR = policy.vector, policy.item_m, policy.item_n
    NV, C = NR // V, compute.components
    names = ("re", "im")[:C]
    vec = f"{compute.real}{V}"
    accumulators = [f"c{i}_{j}_{x}" for i in range(MR) for x in names for j in range(NV)]
    lane = compute.itemsize  # bytes of one lane of one step, re and im
%>
#define TILE ${MR * NR * C}
#define VEC(p) (*(__global lanes${V}_u *)(p))
static inline void tile(
    __global const real_t *a, long a_row, long a_step, __global const real_t *b, long b_step,
    int steps, int parts, __global real_t *sum, long part_stride, int finish,
    long row, long col, int rows, int skip, int cols,
    __global ${c.name}_t *c, long c_row, long c_col, value_t alpha, value_t beta${epilogue.typed(problem)})
{
% for i in range(MR):
    ${vec} ${', '.join(f'c{i}_{j}_{x} = 0' for x in names for j in range(NV))};
% endfor
    if (parts)
        for (int n = 0; n < TILE; n += ${64 * C // lane}) PREFETCH(sum + n);
% if not packing.a_packed:
% for i in range(MR):
    __global const real_t *a${i} = a + (${i} < rows ? ${i} : rows - 1) * a_row;
% endfor
% endif
    for (int k = 0; k < steps; k++) {
% for x, packed, width in (("a", packing.a_packed, MR * lane), ("b", packing.b_packed, NR * lane)):
% for line in range(0, width if packed else 0, 64):
        PREFETCH((__global const char *)${x} + ${16 * width + line});  // 16 steps ahead
% endfor
% endfor
% if not packing.b_packed:
        PREFETCH((__global const char *)b + 256);  // what the next tiles of this row take
% endif
% for x, name in enumerate(names):
% for j in range(NV):
        const ${vec} b${j}_${name} = *(__global const lanes${V}_u *)(b + ${x * NR + j * V});
% endfor
% endfor
% for i in range(MR):
        {
% for x, name in enumerate(names):
            const ${vec} ${name} = (${vec})(${f"a[{x * MR + i}]" if packing.a_packed else f"*a{i}"});
% endfor
% for j in range(NV):
            ${multiply_add(compute, i, j)}
% endfor
        }
% endfor
        b += ${NR * C if packing.b_packed else "b_step"};
% if packing.a_packed:
        a += ${MR * C};
% else:
        ${' '.join(f"a{i} += {'1' if packing.mode_a == 'steps' else 'a_step'};" for i in range(MR))}
% endif
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
${output.store(problem, policy, accumulators)}\
}
</%def>

<%def name="multiply_add(compute, i, j)">\
% if compute.complex:
c${i}_${j}_re += re * b${j}_re; c${i}_${j}_im += re * b${j}_im; c${i}_${j}_re -= im * b${j}_im; c${i}_${j}_im += im * b${j}_re;\
% elif compute.name == "b8":
c${i}_${j}_re |= re & b${j}_re;\
% else:
c${i}_${j}_re += re * b${j}_re;\
% endif
</%def>
