## The addition of children's updates to the front T of a work-item of a CPU, and the stores of T's panel and update
## (see ops/fronts/table.py): for cpu_subtrees.  T is the transpose of the front, in strips of NR columns: see _strips.
##
##   c, m    own columns, and all columns, of T, with the padding (`pad` columns: see _strips)
##   u       rows of an update
##   to      the index of each of these rows in the parent's front (table `relative`)
##   place   the position of each column in row 0 of T, in elements; that in row k is k * NR elements further
##   at      scratch of the work-item for u integers: the positions of the update's columns in row 0 of T
##   strip(q)   the index of the first element of strip q (_strips)
<%def name="define(e, policy)"><%
E, NR, V, C = f"__global {e.name}_t", policy.strip(e), policy.vector, e.components
%>
// Set the first `count` elements of T to zeros; count is a multiple of the elements of a vector.
static inline void clear(${E} *t, long count)
{
    __global real_t *to = (__global real_t *)t;
    for (long i = 0; i < count * ${C}; i += ${V}) VEC(to + i) = (vec_t)(0);
}

// Add a child's update: the upper triangle of its transpose, by contiguous rows, as put_update stores it.
static inline void add_update(${E} *t, __global int *at, __global const int *place, __global const int *to,
                              long u, long pad, ${E} *from)
{
    for (long i = 0; i < u; i++) at[i] = place[to[i] + pad];
    for (long k = 0; k < u; from += u - k, k++) {
        ${E} *row = t + (to[k] + pad) * ${NR};
        for (long i = k; i < u; i++) row[at[i]] += from[i - k];
    }
}

// Add a child's update that is stored in the arena, in packed form (packed_place of _front).
static inline void add_packed(${E} *t, __global int *at, __global const int *place, __global const int *to,
                              long u, long pad, ${E} *from)
{
    for (long i = 0; i < u; i++) at[i] = place[to[i] + pad];
    for (long k = 0; k < u; k++)
        for (long i = k; i < u; i++) t[(to[k] + pad) * ${NR} + at[i]] += CONJ(from[packed_place(i, k, u)]);
}

// Copy rows `pad` .. c of T to the panel, whose rows are those of L.
static inline void put_panel(${E} *t, long pad, long c, long m, ${E} *l, long leading)
{
    // Strip q has the columns begin to end - 1 of T, which are rows of L.  Its rows before last_k are copied, four at
    // a time.
    for (long q = pad / ${NR}; q * ${NR} < m; q++) {
        const long begin = q * ${NR} < pad ? pad : q * ${NR}, end = (q + 1) * ${NR} < m ? (q + 1) * ${NR} : m;
        const long last_k = c < end ? c : end;
        for (long k = pad; k < last_k; k += 4)
            move_conj(t + strip(q) + k * ${NR} + begin % ${NR}, ${NR}, 1, l + (begin - pad) * leading + k - pad, 1,
                      leading, last_k - k < 4 ? last_k - k : 4, end - begin);
    }
}

// Copy the triangle from row c on, which is the update, by contiguous rows k of elements i >= k, strip by strip.
static inline void put_update(${E} *t, long c, long m, ${E} *to)
{
    for (long k = c; k < m; k++)
        for (long i = k; i < m;) {
            const long q = i / ${NR}, end = (q + 1) * ${NR} < m ? (q + 1) * ${NR} : m;
            ${E} *from = t + strip(q) + k * ${NR} - q * ${NR};
            for (; i < end; i++) *to++ = from[i];
        }
}

// Copy the same to the arena, in packed form.
static inline void put_packed(${E} *t, __global const int *place, long c, long u, ${E} *to)
{
    for (long k = 0; k < u; k++)
        for (long i = k; i < u; i++) to[packed_place(i, k, u)] = CONJ(t[place[c + i] + (c + k) * ${NR}]);
}
</%def>
