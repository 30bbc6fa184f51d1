## Assemble and factorise small fronts in local memory, on a GPU.  There is a work-group for each front of the list
## `which`.
##
##          c     u
##       +-----+              1  Set F to zeros, and add the matrix's entries.
##    c  | .   |              2  Add the children's updates, one after the other; each adds to an element once.
##       +-----+-----+        3  For each own column k, F(i, j) -= F(i, k) conj(F(j, k)) / F(k, k).
##    u  |     | .   |        4  Store own columns, times 1 / sqrt(F(k, k)), in the factor, and others in the arena.
##       +-----+-----+
## The lower triangle F is stored in local memory by rows, (i, j) at i (i + 1) / 2 + j.  Its columns are scaled when
## they are stored to the factor, so each column needs only one barrier.
##
## Names in the kernel: c own columns, u further rows, m = c + u; w, half of u rounded up, and e, 1 if u is even,
## else 0 (in template text e is the Element).  Element (i, j) of a packed update is in row i + e, column j if j < w,
## else in row j - w, column i - w + 1 - e (_blocks).  number, the front's; place, the index in F of each row of a
## child's update.
##
## size, lanes   rows of the largest front; work-items (y, x) of a group, a grid of `across` columns over F
## report        for each front, the first own column whose pivot is not positive, or -1, and that pivot's
##               bits
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%namespace name="blocks" file="/fronts/_blocks.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}
#define F(i, j) f[(i) * ((i) + 1) / 2 + (j)]

__kernel ${group.of_size(lanes)}
void ${kernel("small")}
{
    __local value_t f[${size * (size + 1) // 2}];
    __local real_t scales[${size}];
    __local int place[${size}];
    const int t = get_local_id(0), x = t % ${across}, y = t / ${across}, number = which[get_group_id(0)];
${front_.front("number", only=("columns", "rows", "panel", "leading", "update", "child_start", "child_end",
    "entry_start", "entry_end"))}
    ${blocks.sizes()}
    const int e = 1 - u % 2;
    values += values_offset;
    factor += factor_offset + panel;
    arena += arena_offset;
    report += report_offset + 2l * number;
    for (int k = t; k < m * (m + 1) / 2; k += ${lanes}) f[k] = (value_t)(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long k = entry_start + t; k < entry_end; k += ${lanes}) {
        const long source = entry_source[k];  // ~index where the conjugate is meant
        const value_t v = ${e.name}_load(values + (source < 0 ? ~source : source));
        F(entry_row[k], entry_column[k]) = ${"source < 0 ? CONJ(v) : v" if e.complex else "v"};
    }
    for (long k = child_start; k < child_end; ++k) {
        const int child_front = child[k];
${front_.front("child_front", "child_", ("rows", "update", "row_start"))}
        const int u_child = (int)child_rows, w_child = (u_child + 1) / 2, e_child = 1 - u_child % 2;
        __global const ${e.name}_t *child_packed = arena + child_update;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = t; i < u_child; i += ${lanes}) place[i] = relative[child_row_start + i];
        barrier(CLK_LOCAL_MEM_FENCE);
        const float per_row = 1.0f / w_child;
        for (int at = t; at < u_child * (u_child + 1) / 2; at += ${lanes}) {
            // Row r = at / w_child and column q of the packed update (_blocks), and the place in F of its element; a
            // product in place of a division, whose rounding errors are far below 0.5 / w_child.
            const int r = (int)((at + 0.5f) * per_row), q = at - r * w_child;
            const bool in_first_w_columns = r >= q + e_child;
            const int i = place[in_first_w_columns ? r - e_child : q + w_child - 1 + e_child],
                j = place[in_first_w_columns ? q : r + w_child];
            F(i, j) += ${e.name}_load(child_packed + at);
        }
    }
    int failed = -1;
    real_t bad_pivot = 0;
    for (int k = 0; k < c; ++k) {
        barrier(CLK_LOCAL_MEM_FENCE);
        const real_t pivot = REAL(F(k, k));
        if (!(pivot > 0 && pivot < (real_t)INFINITY) && failed < 0) {
            failed = k;
            bad_pivot = pivot;
        }
        const real_t reciprocal = failed < 0 ? 1 / pivot : (real_t)NAN;
        if (t == 0) scales[k] = failed < 0 ? rsqrt(pivot) : (real_t)NAN;
        for (int j = k + 1 + x; j < m; j += ${across}) {
            const value_t right = reciprocal * CONJ(F(j, k));
            // The first row i >= j of this work-item, which has every `lanes / across`-th row.
            int i = k + 1 + y;
            if (i < j) i += (j - i + ${lanes // across - 1}) / ${lanes // across} * ${lanes // across};
            for (; i < m; i += ${lanes // across}) F(i, j) -= MUL(F(i, k), right);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t == 0) {
        report[0] = failed;
        report[1] = ${"as_long(bad_pivot)" if e.needs_fp64 else "(long)as_int(bad_pivot)"};
    }
    for (int i = y; i < m; i += ${lanes // across})
        for (int j = x; j < min(c, i + 1); j += ${across}) {
            const value_t v = F(i, j) * scales[j];
            ${e.name}_store(factor + i * leading + j, ${"i == j ? AS_VALUE(v.x) : v" if e.complex else "v"});
        }
    if (u == 0) return;
    // Row r and column q of the packed update (_blocks), as above.
    arena += update;
    const float per_row = 1.0f / w;
    for (int at = t; at < u * (u + 1) / 2; at += ${lanes}) {
        const int r = (int)((at + 0.5f) * per_row), q = at - r * w;
        const bool in_first_w_columns = r >= q + e;
        ${e.name}_store(arena + at,
            F(c + (in_first_w_columns ? r - e : q + w - 1 + e), c + (in_first_w_columns ? q : r + w)));
    }
}
