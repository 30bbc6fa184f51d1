## Assemble and factorise small fronts in local memory.  There is a work-group for each front.
##
##          c     u
##       +-----+              1  Set F to zeros, and add the matrix's entries.
##    c  | .   |              2  Add the children's updates, one after the other; each adds to an element once.
##       +-----+-----+        3  For each own column k, F(i, j) -= F(i, k) conj(F(j, k)) / F(k, k).
##    u  |     | .   |        4  Store own columns, times 1 / sqrt(F(k, k)), in the factor, and others in the arena.
##       +-----+-----+
## F is stored in local memory by rows, i (i + 1) / 2 + j.  Its columns are scaled when they are stored to
## the factor, so each column needs only one barrier.
##
## size, lanes   rows of the largest front; work-items of a group, `across` of them along a row of F
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
        const long source = entry_source[k];
        const value_t v = ${e.name}_load(values + (source < 0 ? ~source : source));
        F(entry_row[k], entry_column[k]) = ${"source < 0 ? CONJ(v) : v" if e.complex else "v"};
    }
    for (long k = child_start; k < child_end; ++k) {
        const int kid = child[k];
${front_.front("kid", "kid_", ("rows", "update", "row_start"))}
        const int u_kid = (int)kid_rows, w_kid = (u_kid + 1) / 2, e_kid = 1 - u_kid % 2;
        __global const ${e.name}_t *from_kid = arena + kid_update;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = t; i < u_kid; i += ${lanes}) place[i] = relative[kid_row_start + i];
        barrier(CLK_LOCAL_MEM_FENCE);
        const float per_row = 1.0f / w_kid;
        for (int at = t; at < u_kid * (u_kid + 1) / 2; at += ${lanes}) {
            const int r = (int)((at + 0.5f) * per_row), q = at - r * w_kid;
            const bool is_first = r >= q + e_kid;
            const int i = place[is_first ? r - e_kid : q + w_kid - 1 + e_kid], j = place[is_first ? q : r + w_kid];
            F(i, j) += ${e.name}_load(from_kid + at);
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
        const real_t over = failed < 0 ? 1 / pivot : (real_t)NAN;
        if (t == 0) scales[k] = failed < 0 ? rsqrt(pivot) : (real_t)NAN;
        for (int j = k + 1 + x; j < m; j += ${across}) {
            const value_t right = over * CONJ(F(j, k));
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
    arena += update;
    const float per_row = 1.0f / w;
    for (int at = t; at < u * (u + 1) / 2; at += ${lanes}) {
        const int r = (int)((at + 0.5f) * per_row), q = at - r * w;
        const bool is_first = r >= q + e;
        ${e.name}_store(arena + at, F(c + (is_first ? r - e : q + w - 1 + e), c + (is_first ? q : r + w)));
    }
}
