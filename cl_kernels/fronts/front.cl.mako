## A work-group assembles a front, factorises its columns and forms its update, in global memory.
## It is right for any size on any device, and slow.
##
##        c       u
##    +-------+               zero; the matrix's entries; the children's updates, one after the other;
##  c | L11   .               then column by column: root of the pivot, scale, subtract;
##    +-------+------+        at last the update: what was assembled, less L21 L21^H
##  u | L21   |  U   .
##    +-------+------+
##
## e       Element       size   work-items of a group
## which   the fronts of this launch; group g has which[first + g]
## report  of each front: its first column whose pivot is not positive, or -1, and the pivot's bits
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E = f"__global {e.name}_t"
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}
${numbers.root(e)}
${front_.place()}

__kernel ${group.of_size(size)}
void front(__global const int *which, ${front_.parameters()}, ${E} *values, ${E} *factor, ${E} *arena, __global long *report, long first_of, long values_offset, long factor_offset, long arena_offset, long report_offset)
{
    const long t = get_local_id(0), s = which[first_of + get_group_id(0)];
${front_.front("s")}
    const long m = columns + rows, area = rows * (rows + 1) / 2;
    ${E} *l = factor + factor_offset + panel, *u = arena + arena_offset + update;
    values += values_offset;
    for (long at = t; at < m * leading; at += ${size}) l[at] = (value_t)(0);
    for (long at = t; at < area; at += ${size}) u[at] = (value_t)(0);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (long at = entry_start + t; at < entry_end; at += ${size}) {
        const long source = entry_source[at];
        const value_t v = values[source < 0 ? ~source : source];
        l[entry_row[at] * leading + entry_column[at]] = source < 0 ? CONJ(v) : v;
    }
    for (long k = child_start; k < child_end; k++) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        const long one = child[k];
${front_.front("one", "child_", ("rows", "update", "row_start"))}
        __global const int *to = relative + child_row_start;
        ${E} *from = arena + arena_offset + child_update;
        for (long i = t; i < child_rows; i += ${size})
            for (long j = 0; j <= i; j++) {
                const value_t v = from[packed_place(i, j, child_rows)];
                if (to[j] < columns) l[to[i] * leading + to[j]] += v;
                else u[packed_place(to[i] - columns, to[j] - columns, rows)] += v;
            }
    }
    long failed = -1;
    real_t bad_pivot = 0;
    for (long k = 0; k < columns; k++) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        const real_t pivot = REAL(l[k * leading + k]);
        if (!(pivot > 0 && pivot < (real_t)INFINITY) && failed < 0) {
            failed = k;
            bad_pivot = pivot;
        }
        const real_t inverse = failed < 0 ? 1 / SQRT(pivot) : (real_t)NAN;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (long i = k + t; i < m; i += ${size}) l[i * leading + k] *= inverse;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (long i = k + 1 + t; i < m; i += ${size})
            for (long j = k + 1; j <= i && j < columns; j++)
                l[i * leading + j] -= MUL(l[i * leading + k], CONJ(l[j * leading + k]));
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (long i = t; i < rows; i += ${size})
        for (long j = 0; j <= i; j++) {
            value_t sum = (value_t)(0);
            for (long k = 0; k < columns; k++)
                sum += MUL(l[(columns + i) * leading + k], CONJ(l[(columns + j) * leading + k]));
            u[packed_place(i, j, rows)] -= sum;
        }
    if (t == 0) {
        report[report_offset + 2 * s] = failed;
        report[report_offset + 2 * s + 1] = ${"as_long(bad_pivot)" if e.needs_fp64 else "(long)as_int(bad_pivot)"};
    }
}
