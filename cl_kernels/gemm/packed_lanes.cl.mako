## gemm of many small products on a CPU, V products at a time: each product has one lane of every vector.
##
##      scratch: the elements (i, p) of V matrices A are a       c[r][s] += a[i + r][p] * b[p][j + s]
##      vector; so are the elements of B and of C                for a tile of R x S vectors of C
##
## Work-groups of one work-item compute blocks_each blocks of V products, one after the other.  `count` is the number of
## products.
##
##   scratch of a work-item   | ta: A, lines of vectors of V | tb: B | tc: C |
##
## Lines in scratch are the rows of a matrix or its columns: those whose elements are nearer to each other in memory.
## common_a, common_b: whether the operand is the same for every product, and copied once.
##
## problem: of one batch axis; a, b and c are of one real element.  V: lanes of a vector.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="moves" file="/common/moves.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    e = problem.compute
    E = f"__global {e.name}_t"
    tile_sizes = [(R, S) for R in (4, 1) for S in (4, 1)]
%>
${element.scalar(e)}
${epilogue.values(e)}
${moves.types(e)}
${moves.define(e)}
typedef ${e.real}${V} vec_t;
typedef ${e.real}${V} vec_u __attribute__((aligned(${e.itemsize})));
#define VEC(p) (*(__global vec_u *)(p))

// Copy a block of `lanes` matrices to scratch, four from w on at a time.  A matrix has `lines` lines of `length`
// elements.  Strides: matrix_step between matrices, line_step between lines, step between the elements of a line.
// Matrices without gaps are copied as one line.
static inline void to_scratch(const ${E} *from, long line_step, long step, long matrix_step, ${E} *to, long lines,
    long length, long lanes)
{
    if (line_step == length * step) length *= lines, lines = 1;
    for (long w = 0; w < lanes; w += 4)
        for (long i = 0; i < lines; i++)
            move(from + w * matrix_step + i * line_step, matrix_step, step, to + i * length * ${V} + w, 1, ${V},
                lanes - w < 4 ? lanes - w : 4, length);
}

// Copy a block of matrices from scratch: the reverse of to_scratch.
static inline void from_scratch(const ${E} *from, ${E} *to, long line_step, long step, long matrix_step, long lines,
    long length, long lanes)
{
    if (line_step == length * step) length *= lines, lines = 1;
    for (long w = 0; w < lanes; w += 4)
        for (long i = 0; i < lines; i++)
            move(from + i * length * ${V} + w, 1, ${V}, to + w * matrix_step + i * line_step, matrix_step, step,
                lanes - w < 4 ? lanes - w : 4, length);
}
% for R, S in tile_sizes:

// A tile of R x S vectors of C: c[r][s] = alpha * sum + beta * c[r][s].
static inline void tile_${R}_${S}(const ${E} *a, long a_row, long a_col, const ${E} *b, long b_row, long b_col,
                            ${E} *c, long c_row, long c_col, long steps, value_t alpha, value_t beta)
{
    vec_t ${", ".join(f"c{r}_{s} = 0" for r in range(R) for s in range(S))};
    for (long p = 0; p < steps; p++, a += a_col, b += b_row) {
        ${" ".join(f"const vec_t b{s} = VEC(b{f' + {s} * b_col' if s else ''});" for s in range(S))}
% for r in range(R):
        { const vec_t v = VEC(a${f" + {r} * a_row" if r else ""});
            ${" ".join(f"c{r}_{s} += v * b{s};" for s in range(S))} }
% endfor
    }
% for r, s in [(r, s) for r in range(R) for s in range(S)]:
<% at = f"VEC(c + {r} * c_row + {s} * c_col)" %>\
    ${at} = alpha * c${r}_${s}${f" + beta * {at}" if problem.reads_c else ""};
% endfor
}
% endfor

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("lanes")}
{
% for x, rows, cols in (("a", "m", "steps"), ("b", "steps", "n"), ("c", "m", "n")):
    const bool ${x}_by_rows = (${x}_col < 0 ? -${x}_col : ${x}_col) <= (${x}_row < 0 ? -${x}_row : ${x}_row);
    const long ${x}_lines = ${x}_by_rows ? ${rows} : ${cols}, ${x}_length = ${x}_by_rows ? ${cols} : ${rows};
    const long ${x}_line_step = ${x}_by_rows ? ${x}_row : ${x}_col, ${x}_step = ${x}_by_rows ? ${x}_col : ${x}_row;
    // Strides in scratch.
    const long ${x}r = ${x}_by_rows ? ${x}_length * ${V} : ${V}, ${x}c = ${x}_by_rows ? ${V} : ${x}_length * ${V};
% endfor
    ${E} *ta = scratch + get_group_id(0) * (m * steps + steps * n + m * n) * ${V};
    ${E} *tb = ta + m * steps * ${V}, *tc = tb + steps * n * ${V};
    const long start = get_group_id(0) * blocks_each * ${V},
        end = start + blocks_each * ${V} < count ? start + blocks_each * ${V} : count;
    for (long product = start; product < end; product += ${V}) {
        const long lanes = end - product < ${V} ? end - product : ${V};
% for x in "ab":
        if (!common_${x} || product == start)
            to_scratch(${x} + ${x}_offset + product * ${x}_batch0, ${x}_line_step, ${x}_step, ${x}_batch0, t${x},
                ${x}_lines, ${x}_length, lanes);
% endfor
        ${E} *to = c + c_offset + product * c_batch0;
% if problem.reads_c:
        to_scratch(to, c_line_step, c_step, c_batch0, tc, c_lines, c_length, lanes);
% endif
        // Tiles of 4 x 4 elements, and at the ends single rows or columns.
        for (long i = 0; i < m; i += m - i < 4 ? 1 : 4)
            for (long j = 0; j < n; j += n - j < 4 ? 1 : 4) {
                ${E} *pa = ta + i * ar, *pb = tb + j * bc, *pc = tc + i * cr + j * cc;
% for R, S in tile_sizes:
                ${"else " if (R, S) != (4, 4) else ""}\
% if (R, S) != (1, 1):
if (m - i ${">=" if R == 4 else "<"} 4 && n - j ${">=" if S == 4 else "<"} 4)\
% endif

                    tile_${R}_${S}(pa, ar, ac, pb, br, bc, pc, cr, cc, steps, alpha, beta);
% endfor
            }
        from_scratch(tc, to, c_line_step, c_step, c_batch0, c_lines, c_length, lanes);
    }
}
