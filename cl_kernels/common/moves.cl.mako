## Copies of matrices between memory with any strides and scratch memory, on CPUs: to[i, j] = from[i, j], or its
## conjugate.
##
##   define(e, name="move", flips=False, noinline=False)
##       name(from, from_row, from_col, to, to_row, to_col, rows, cols)      strides and extents count elements
##   define_clear(e)
##       clear(scratch, size)        zeros, before the first matrix is copied to scratch memory of `size` elements
##   types(e)                        types that `define` uses
##
## Rows that are adjacent elements on both sides are copied as vectors of four.  Four rows (rows == 4) of which one side
## has adjacent rows and the other adjacent columns are transposed in registers, four by four.  Other matrices, and the
## last columns, are copied element by element.  Elements of a row may be adjacent in reverse order (stride -1).
## e: the Element.  flips: whether complex numbers are conjugated.  noinline: whether PoCL compiles the function by
## itself, which is faster for few calls that copy much.
<%def name="types(e)">
% if e.itemsize <= 8:
typedef ${'uint' if e.itemsize == 4 else 'ulong'}4 four_t __attribute__((aligned(4)));
#define FOUR(p) (*(__global four_t *)(p))
% endif
</%def>

<%def name="define_clear(e)">
// Vectors and the last rows of a tile extend beyond a matrix, and multiply the values there.  These products are not
// used, but products of subnormal numbers take 10 to 60 times as long.
static inline void clear(__global ${e.name}_t *t, long size)
{
    __global uint *words = (__global uint *)t;
    for (long i = 0; i < size * ${e.itemsize // 4}; i++) words[i] = 0;
}
</%def>

<%def name="define(e, name='move', flips=False, noinline=False)"><%
    flips = flips and e.complex
    word = "uint" if e.itemsize == 4 else "ulong"
    flip = " ^ (ulong4)(1ul << 63)" if flips else ""  # the sign of the imaginary part
%>
static inline void ${name}_elements(__global const ${e.name}_t *from, long from_row, long from_col,
                                  __global ${e.name}_t *to, long to_row, long to_col, long rows, long cols)
{
    for (long i = 0; i < rows; i++)
% if e.itemsize <= 8:
#pragma clang loop vectorize(disable) unroll(disable)  // for edges, of up to three elements
% endif
        for (long j = 0; j < cols; j++) {
            ${e.value} v = ${e.name}_load(from + i * from_row + j * from_col);
% if flips:
            v.y = -v.y;
% endif
            ${e.name}_store(to + i * to_row + j * to_col, v);
        }
}
static inline void ${name}(__global const ${e.name}_t *from, long from_row, long from_col,
                         __global ${e.name}_t *to, long to_row, long to_col, long rows, long cols)
{
% if noinline:
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
% endif
    long done = 0;
% if e.itemsize <= 8:
    const bool from_rows = from_col == 1 || from_col == -1, to_rows = to_col == 1 || to_col == -1;
    if (from_rows && to_col == 1) {
        for (; done + 4 <= cols; done += 4)
            for (long i = 0; i < rows; i++) {
                __global const ${e.name}_t *at = from + i * from_row + done * from_col;
                FOUR(to + i * to_row + done) = (from_col == 1 ? FOUR(at) : FOUR(at - 3).s3210)${flip};
            }
    } else if (rows == 4 && from_rows && to_row == 1) {
        for (; done + 4 <= cols; done += 4) {
            __global const ${e.name}_t *at = from + done * from_col;
% for i in range(4):
            const ${word}4 v${i} = (from_col == 1 ? FOUR(at + ${i} * from_row)
                : FOUR(at + ${i} * from_row - 3).s3210)${flip};
% endfor
            ${transpose(word)}
% for i in range(4):
            FOUR(to + (done + ${i}) * to_col) = w${i};
% endfor
        }
    } else if (rows == 4 && from_row == 1 && to_rows) {
        for (; done + 4 <= cols; done += 4) {
            __global ${e.name}_t *at = to + done * to_col;
% for i in range(4):
            const ${word}4 v${i} = FOUR(from + (done + ${i}) * from_col)${flip};
% endfor
            ${transpose(word)}
            if (to_col == 1) {
% for i in range(4):
                FOUR(at + ${i} * to_row) = w${i};
% endfor
            } else {
% for i in range(4):
                FOUR(at + ${i} * to_row - 3) = w${i}.s3210;
% endfor
            }
        }
    }
% endif
    ${name}_elements(from + done * from_col, from_row, from_col, to + done * to_col, to_row, to_col, rows, cols - done);
}
</%def>

## w0 .. w3 become the columns of the matrix of the rows v0 .. v3.
<%def name="transpose(word)">\
const ${word}4 p = (${word}4)(v0.s0, v1.s0, v0.s1, v1.s1), q = (${word}4)(v2.s0, v3.s0, v2.s1, v3.s1);
            const ${word}4 r = (${word}4)(v0.s2, v1.s2, v0.s3, v1.s3), s = (${word}4)(v2.s2, v3.s2, v2.s3, v3.s3);
            const ${word}4 w0 = (${word}4)(p.lo, q.lo), w1 = (${word}4)(p.hi, q.hi), w2 = (${word}4)(r.lo, s.lo),
                w3 = (${word}4)(r.hi, s.hi);\
</%def>
