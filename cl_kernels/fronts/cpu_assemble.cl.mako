## Assemble one front in global memory: front = entries of the matrix + updates of its children.  The launch has `count`
## groups of one work-item of a CPU, each for a part of the rows.
##
##        c          w             A work-item owns rows p0 .. p1 - 1 of the panel, and rows q0 .. q1 - 1 of the packed
##    +-------+  +--------+        update (ops/fronts/table.py has its layout, with c, u, w and e).  Row q of the packed
##    |       |  |j       |        update has row i = q - e of the triangle in columns 0 .. w - 1, and column j = q + w
##    | panel |  |i       |        of the triangle.  So each element has one owner, and children are added in order.
##    +-------+  +--------+
##
## e       Element       s   the front       count   work-items
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
${front_.place()}

// The index of the first of n ascending numbers that is at least `bound`, or n.
static inline long first_from(__global const int *numbers, long n, long bound)
{
    long low = 0, high = n;
    while (low < high) {
        const long middle = (low + high) / 2;
        if (numbers[middle] < bound) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Add the elements (i, j), j in [from, to), of a packed update of u rows: element j to row[at[j] - shift].
// `across` + j * w is the place of element (i, j) where j >= w.
static inline void add_row(${E} *row, __global const int *at, long shift, ${E} *packed_update, long i, long from,
    long to, long u)
{
    const long w = (u + 1) / 2, e = 1 - u % 2, middle = from > to || to < w ? to : from > w ? from : w;
    ${E} *line = packed_update + (i + e) * w, *across = packed_update - w * w + i - w + 1 - e;
    for (long j = from; j < middle; j++) row[at[j] - shift] += line[j];
    for (long j = middle; j < to; j++) row[at[j] - shift] += across[j * w];
}

// Add the elements (i, j), i in [from, u), of a packed update of u rows: element i to column[at[i] - shift].
static inline void add_column(${E} *column, __global const int *at, long shift, ${E} *packed_update, long j, long from,
    long u)
{
    const long w = (u + 1) / 2, e = 1 - u % 2, step = j < w ? w : 1;
    ${E} *first = j < w ? packed_update + e * w + j : packed_update + (j - w) * w - w + 1 - e;
    for (long i = from; i < u; i++) column[at[i] - shift] += first[i * step];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("assemble")}
{
    const long g = get_group_id(0);
${front_.front("s", only=("columns", "rows", "panel", "leading", "update", "child_start", "child_end", "entry_start",
    "entry_end"))}
    const long m = columns + rows, w = (rows + 1) / 2, e = 1 - rows % 2, stored = rows ? rows + e : 0;
    const long p0 = m * g / count, p1 = m * (g + 1) / count, q0 = stored * g / count, q1 = stored * (g + 1) / count;
    ${E} *l = factor + factor_offset + panel, *packed = arena + arena_offset + update;
    for (long at = p0 * leading; at < p1 * leading; at++) l[at] = (value_t)(0);
    for (long at = q0 * w; at < q1 * w; at++) packed[at] = (value_t)(0);
    for (long k = entry_start; k < entry_end; k++) {
        const long source = entry_source[k], row = entry_row[k];
        if (row < p0 || row >= p1) continue;
        const value_t v = values[values_offset + (source < 0 ? ~source : source)];
        l[row * leading + entry_column[k]] = source < 0 ? CONJ(v) : v;
    }
    for (long k = child_start; k < child_end; k++) {
${front_.front("child[k]", "child_", ("rows", "update", "row_start"))}
        __global const int *at = relative + child_row_start;  // the child's rows in the numbering of the front
        ${E} *from = arena + arena_offset + child_update;
        // Rows of the child up to `own` are own columns of the front, and those up to `in_first_w` are in the first w
        // others.
        const long n = child_rows, own = first_from(at, n, columns), in_first_w = first_from(at, n, columns + w);
        // The child's rows in rows of this work-item's panel.
        for (long i = first_from(at, n, p0), end = first_from(at, n, p1); i < end; i++)
            add_row(l + at[i] * leading, at, 0, from, i, 0, i + 1 < own ? i + 1 : own, n);
        // Those in rows of its part of the packed update.
        for (long i = first_from(at, n, columns + q0 - e > columns ? columns + q0 - e : columns),
            end = first_from(at, n, columns + q1 - e); i < end; i++)
            add_row(packed + (at[i] - columns + e) * w, at, columns, from, i, own,
                i + 1 < in_first_w ? i + 1 : in_first_w, n);
        // Those that are columns of the front, and so in rows of its part, from w on.
        for (long j = first_from(at, n, columns + w + q0), end = first_from(at, n, columns + w + q1); j < end; j++)
            add_column(packed + (at[j] - columns - w) * w, at, columns + w - 1 + e, from, j, j, n);
    }
}
