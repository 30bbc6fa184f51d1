## gemm of small products on a CPU: C = epilogue(alpha * A @ B + beta * C).  A work-item packs and multiplies
## products_each products of a batch, one after the other, in its part of scratch.  If there are few products, it
## computes only `strip` panels of B's columns of each.  Range: (products / products_each, panels of B / strip).
##
##   scratch of a work-item   | packed A, if a_packed: panel after panel (_pack) | packed B, if b_packed |
##
## MR, NR: rows and columns of a tile; C: reals of an element; steps: the extent of k.
## common_b: whether B is the same for every product, and packed once.  Operands for which a_packed or b_packed is 0 are
## read in place.  Between the tiles of a product, `lines_a` and `lines_b` cache lines of the operands of the next
## product are prefetched.  Rows of C are stored over `across` panels of B, which stay in the L1 cache.
## The triangle is part of the text: in small products, tests at run time would be a measurable part of the time.
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="packed" file="/gemm/_packed.cl.mako"/>
<%
    compute, rank = problem.compute, len(problem.batch)
    MR, NR, C = policy.item_m, policy.item_n, problem.compute.components
    names = {"a": problem.a, "b": problem.b, "c": problem.c}
    names.update((f"e{i}", extra) for i, extra in enumerate(problem.extras))
%>
${packed.functions(problem, policy, problem.triangle)}
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("whole")}
{
    const long panels_a = (m + ${MR - 1}) / ${MR}, panels_b = (n + ${NR - 1}) / ${NR};
    const long size_a = panels_a * steps * ${MR * C}, size_b = strip * steps * ${NR * C};
    const long part = get_global_id(1) * ((products + products_each - 1) / products_each) + get_global_id(0);
    __global real_t *packed_a = scratch + part * (a_packed * size_a + b_packed * size_b);
    __global real_t *packed_b = packed_a + a_packed * size_a;
    const long first = get_global_id(1) * strip, last = LEAST(panels_b, first + strip);
    const long start = get_global_id(0) * products_each, end = LEAST(products, start + products_each);
% for name, operand in names.items():
    __global ${'' if name == 'c' else 'const '}${operand.elem.name}_t *${name}_first = ${name};
% endfor
    for (long item = start; item < end; item++) {
% for name, operand in names.items():
        __global ${'' if name == 'c' else 'const '}${operand.elem.name}_t *${name} = ${name}_first;
% endfor
        ${operands.locate(names, rank, "item")}
        for (long p = 0; p < panels_a && a_packed; p++)
            pack_a(a + p * ${MR} * a_row, a_row, a_col, LEAST((long)${MR}, m - p * ${MR}), steps,
                   packed_a + p * steps * ${MR * C});
        for (long q = first; q < last && b_packed && !(common_b && item > start); q++)
            pack_b(b + q * ${NR} * b_col, b_col, b_row, LEAST((long)${NR}, n - q * ${NR}), steps,
                   packed_b + (q - first) * steps * ${NR * C});
% if rank == 1:
        __global const char *next_a = (__global const char *)(a + a_batch0),
            *next_b = (__global const char *)(b + b_batch0);
        const int more = item + 1 < end;
% endif
        // Tiles: panels q of B, `across` at a time, of each all panels p of A that have elements in the triangle.
        for (long block = first; block < last; block += across) {
            const long stop = LEAST(last, block + across);
% if problem.triangle == "lower":
            for (long p = block * ${NR} / ${MR}; p < panels_a; p++)
% elif problem.triangle:
            for (long p = 0; p < panels_a && p * ${MR} < stop * ${NR}; p++)
% else:
            for (long p = 0; p < panels_a; p++)
% endif
            for (long q = block; q < stop; q++) {
                const int skip = !b_packed && (q + 1) * ${NR} > n ? (q + 1) * ${NR} - n : 0;
                __global const real_t *pb = packed_b + (q - first) * steps * ${NR * C};
                long b_step = ${NR * C};
% if "b" in direct:
                if (!b_packed) pb = b + (q * ${NR} - skip), b_step = b_row;
% endif
% if rank == 1:
                for (int line = 0; line < more * lines_a; line++, next_a += 64) PREFETCH(next_a);
                for (int line = 0; line < more * lines_b; line++, next_b += 64) PREFETCH(next_b);
% endif
                __global const real_t *pa = packed_a + p * steps * ${MR * C};
% if "a" in direct:
                if (!a_packed) pa = a + p * ${MR} * a_row;
% endif
                tile(pa, a_packed, a_row, a_col, pb, b_step, b_packed ? ${16 * NR * compute.itemsize} : 256, steps,
                     0, scratch, 0, 1, p * ${MR}, q * ${NR} - skip,
                     LEAST((long)${MR}, m - p * ${MR}), skip, LEAST((long)${NR}, n - (q * ${NR} - skip)),
                     c, c_row, c_col, alpha, beta${epilogue.passed(problem)});
            }
        }
    }
}
