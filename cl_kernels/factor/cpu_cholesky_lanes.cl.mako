## cpu_cholesky_lanes: A = L L^H of many small matrices on a CPU, W at a time: each matrix has one lane of every vector.
##
##      scratch: element (i, j) of W matrices is a vector      Column j of L is computed from the previous
##      of V reals, AT(i, j)                                   columns, four rows at a time.
##
## A work-item factorises `run` blocks of W matrices, one after the other.  A matrix without gaps is copied as one line
## of n * n elements.  Scratch is by rows (x_col is 1), or by columns if L is (l_row is 1).
##
## problem   CholeskyProblem of one batch axis     in_place   whether L replaces A; else elements above L become zeros
## policy    CpuPolicy                             W          matrices of a block
## report    for each matrix, the first column whose pivot is not positive, or -1, and the bits of that pivot.  The
##           matrix may be a block of a larger one, from its column `first` on; reports of earlier blocks remain
##
## Complex numbers: see _rows; here both factors of a product are vectors.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="moves" file="/common/moves.cl.mako"/>
<%namespace name="rows" file="/factor/_rows.cl.mako"/>
<%namespace name="copies" file="/factor/_cpu_lane_copies.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, V = problem.elem, policy.vector
C, W = e.components, V // e.components
E, source, digits = f"__global {e.name}_t", "l" if in_place else "a", "0123456789abcdef"
# Names of components: the real part (0) or the imaginary part (1) of each number of a vector, at both its places.
twice = lambda part: "".join(digits[i - i % 2 + part] for i in range(V))
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.root(e)}
typedef ${"long" if e.needs_fp64 else "int"}${V} mask_t;
${moves.types(e)}
${moves.define(e)}
${rows.types(e, policy)}
#define AT(i, j) VEC(x + ((i) * x_row + (j) * x_col) * ${V})

// Rows [i, i + count) of column j of L: A less the products of the previous columns, times `scale`.
% for count in (4, 1):
static inline void subtract${count}(__global real_t *x, long x_row, long x_col, long i, long j, vec_t scale)
{
% for r in range(count):
    vec_t c${r} = AT(i + ${r}, j)${f", d{r} = 0" if e.complex else ""};
% endfor
    for (long k = 0; k < j; k++) {
        const vec_t s = AT(j, k);
        ${f"const vec_t re = s.s{twice(0)}, im = s.s{twice(1)};" if e.complex else ""}
% for r in range(count):
        const vec_t b${r} = AT(i + ${r}, k);
        ${f"c{r} -= b{r} * re; d{r} -= b{r} * im;" if e.complex else f"c{r} -= b{r} * s;"}
% endfor
    }
% for r in range(count):
    AT(i + ${r}, j) = ${f"(c{r} - TIMES_I(d{r}))" if e.complex else f"c{r}"} * scale;
% endfor
}
% endfor
${copies.define(E, W, in_place)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("cholesky")}
{
    const long item = get_group_id(0);
    ${E} *t = scratch + item * size;
    __global real_t *x = (__global real_t *)t;
    const long end = (item + 1) * run * ${W} < count ? (item + 1) * run * ${W} : count;
    const bool by_rows = l_row != 1;
    const long x_row = by_rows ? n : 1, x_col = by_rows ? 1 : n;
    for (long product = item * run * ${W}; product < end; product += ${W}) {
        const long lanes = end - product < ${W} ? end - product : ${W};
        const long a_line = by_rows ? ${source}_row : ${source}_col, a_step = by_rows ? ${source}_col : ${source}_row;
        load_block((${E} *)${source} + ${source}_offset + product * ${source}_batch0, a_line, a_step,
            ${source}_batch0, t, n, lanes);
        // For each lane: whether all pivots were positive so far; the first column whose pivot is not; its bits.
        mask_t good = -1, failed = -1, bad_pivot = 0;
        for (long j = 0; j < n; j++) {
            subtract1(x, x_row, x_col, j, j, 1);
            const vec_t pivot = AT(j, j)${f".s{twice(0)}" if e.complex else ""};
            const mask_t fails = good & ~((pivot > 0) & (pivot < (${e.real})INFINITY));
            failed = fails ? (mask_t)(j) : failed;
            bad_pivot = fails ? as_${"long" if e.needs_fp64 else "int"}${V}(pivot) : bad_pivot;
            good &= ~fails;
            const vec_t root = (vec_t)(${", ".join(f"SQRT(pivot.s{digits[i]})" for i in range(V))});
            const vec_t scale = good ? 1 / root : (vec_t)(NAN);
            AT(j, j) = pivot * scale${f" * (vec_t)({', '.join(['1, 0'] * W)})" if e.complex else ""};
            long i = j + 1;
            for (; i + 4 <= n; i += 4) subtract4(x, x_row, x_col, i, j, scale);
            for (; i < n; i++) subtract1(x, x_row, x_col, i, j, scale);
% if not in_place:
            for (long k = 0; k < j; k++) AT(k, j) = 0;
% endif
        }
        store_block(t, l + l_offset + product * l_batch0, by_rows ? l_row : l_col, by_rows ? l_col : l_row, l_batch0, n,
            lanes, by_rows);
        const ${"long" if e.needs_fp64 else "int"} *column = (const void *)&failed, *bits = (const void *)&bad_pivot;
        for (long w = 0; w < lanes; w++) {
            __global long *reported = report + report_offset + 2 * (product + w);
            if (first != 0 && (column[w * ${C}] < 0 || reported[0] >= 0)) continue;
            reported[0] = column[w * ${C}] < 0 ? -1 : first + column[w * ${C}];
            reported[1] = bits[w * ${C}];
        }
    }
}
