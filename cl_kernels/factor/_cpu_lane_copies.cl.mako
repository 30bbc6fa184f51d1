## Copies of up to W matrices between memory and scratch, for cpu_cholesky_lanes: element (i, j) of the W matrices
## becomes a vector, in which each matrix has one lane.  E: the type of elements, with its address space.
##
##   a, l    matrices in memory: `line` elements between lines (rows or columns), `step` along a line, `apart` between
##           matrices
##   x       scratch: n lines of n vectors of W elements
##   lanes   how many matrices there are; `move` (common/moves) copies four of them at a time, from number w on
<%def name="define(E, W, in_place)">
// Copy a block of matrices to scratch, line by line.  A matrix without gaps is copied as one line.
static inline void load_block(${E} *a, long line, long step, long apart, ${E} *x, long n, long lanes)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    const bool contiguous = line == n * step;
    for (long w = 0; w < lanes; w += 4)
        for (long i = 0; i < (contiguous ? 1 : n); i++)
            move(a + w * apart + i * line, apart, step, x + i * n * ${W} + w, 1, ${W}, lanes - w < 4 ? lanes - w : 4,
                contiguous ? n * n : n);
}

// Copy the factors back.  In place, a row is copied up to the diagonal, and a column from the diagonal on.
static inline void store_block(${E} *x, ${E} *l, long line, long step, long apart, long n, long lanes, bool by_rows)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    const bool contiguous = ${"false" if in_place else "line == n * step"};
    for (long w = 0; w < lanes; w += 4)
        for (long i = 0; i < (contiguous ? 1 : n); i++) {
            const long from = ${"by_rows ? 0 : i" if in_place else "0"},
                length = ${"by_rows ? i + 1 : n - i" if in_place else "contiguous ? n * n : n"};
            move(x + (i * n + from) * ${W} + w, 1, ${W}, l + w * apart + i * line + from * step, apart, step,
                lanes - w < 4 ? lanes - w : 4, length);
        }
}
</%def>
