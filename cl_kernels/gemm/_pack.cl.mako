## Packing on CPUs (packed, packed_whole): copy one panel of a matrix to contiguous memory, and convert its elements to
## the product's type.
##
##   source: lanes are rows of A, or columns of B      panel: step after step along k
##
##     lane 0 | step 0, 1, 2 ...                         step 0 | re of P lanes | im of P lanes |
##     lane 1 | step 0, 1, 2 ...              ->         step 1 | re of P lanes | im of P lanes |
##     ...                                               ...      (im where the product is complex)
##
## A panel has P lanes.  Lanes beyond the matrix's edge repeat the last one; their results are never stored.  A step of
## the panel has W numbers: P, or 2 P where the product is complex.
##
##   vectors(compute)             typedefs lanesN_u: N packed values at any address
##   define(name, operand, compute, P)
##       name(source, lane_stride, step_stride, lanes, steps, panel), which packs `lanes` <= P
##       lanes of `steps` steps.  operand: portable_gpu.ops.gemm.problem.Operand; compute: the Element of the product
## If lane_stride is 1, vectors are copied; if step_stride is 1, squares of 4 x 4 are transposed in registers; other
## operands and the edges are copied one element at a time.
<%def name="vectors(compute)"><% r = compute.real %>
% for w in (2, 4, 8, 16):
typedef ${compute.real}${w} lanes${w}_u __attribute__((aligned(${compute.itemsize // compute.components})));
% endfor
// Store four lanes of four steps each; step s is stored at to + s * stride.
static inline void store_square(__global real_t *to, int stride, ${r}4 a, ${r}4 b, ${r}4 c, ${r}4 d)
{
    const ${r}4 p = (${r}4)(a.s0, b.s0, a.s1, b.s1), q = (${r}4)(c.s0, d.s0, c.s1, d.s1);
    const ${r}4 v = (${r}4)(a.s2, b.s2, a.s3, b.s3), w = (${r}4)(c.s2, d.s2, c.s3, d.s3);
    *(__global lanes4_u *)to = (${r}4)(p.lo, q.lo);
    *(__global lanes4_u *)(to + stride) = (${r}4)(p.hi, q.hi);
    *(__global lanes4_u *)(to + 2 * stride) = (${r}4)(v.lo, w.lo);
    *(__global lanes4_u *)(to + 3 * stride) = (${r}4)(v.hi, w.hi);
}
</%def>

<%def name="define(name, operand, compute, P)"><%
    e, W, covered = operand.elem, P * compute.components, 0
    minus = "-" if operand.conj else ""
    def components(x, w):
        """The expressions of re, and of im where the product is complex, of w elements that x holds."""
        type = f"{compute.real}{w}"
        if not e.complex:
            return [f"CONVERT({type}, {x})", f"({type})(0)"][: compute.components]
        return [f"CONVERT({type}, {x}.even)", f"CONVERT({type}, {minus}{x}.odd)"]
%>
// Pack the lanes from `first` on, one element at a time.
static inline void ${name}_scalar(__global const ${e.name}_t *source, long lane_stride,
                                  long step_stride, int first, int lanes, int steps,
                                  __global real_t *panel)
{
    for (int k = 0; k < steps; k++, source += step_stride, panel += ${W})
        for (int i = first; i < ${P}; i++) {
            const ${e.value} x = ${e.name}_load(source + (i < lanes ? i : lanes - 1) * lane_stride);
            panel[i] = ${"x.x" if e.complex else "x"};
% if compute.complex:
            panel[${P} + i] = ${f"{minus}x.y" if e.complex else "0"};
% endif
        }
}
static inline void ${name}(__global const ${e.name}_t *source, long lane_stride,
                           long step_stride, int lanes, int steps, __global real_t *panel)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    if (lane_stride == 1 && lanes == ${P}) {
        for (int k = 0; k < steps; k++, source += step_stride, panel += ${W}) {
% for first, w in pieces(P, 16 // e.components):
            const ${e.real}${w * e.components} x${first} = ${e.name}_load${w * e.components}(source + ${first});
% for c, part in enumerate(components(f"x{first}", w)):
            *(__global lanes${w}_u *)(panel + ${c * P + first}) = ${part};
% endfor
<% covered = first + w %>\
% endfor
% if covered < P:
            ${name}_scalar(source, 1, 1, ${covered}, lanes, 1, panel);
% endif
        }
        return;
    }
    const int whole = step_stride == 1 ? steps & ~3 : 0;  // the steps that are copied in squares
    for (int first = 0; first < ${P // 4 * 4} && whole; first += 4) {
% for i in range(4):
        __global const ${e.name}_t *s${i} = source + (first + ${i} < lanes ? first + ${i} : lanes - 1) * lane_stride;
% endfor
        for (int k = 0; k < whole; k += 4) {
            __global real_t *to = panel + (long)k * ${W} + first;
% for i in range(4):
            const ${e.real}${4 * e.components} x${i} = ${e.name}_load${4 * e.components}(s${i} + k);
% endfor
% for c in range(compute.components):
            store_square(to + ${c * P}, ${W}, ${', '.join(components(f"x{i}", 4)[c] for i in range(4))});
% endfor
        }
    }
% if P % 4:
    ${name}_scalar(source, lane_stride, 1, ${P // 4 * 4}, lanes, whole, panel);
% endif
    ${name}_scalar(source + whole * step_stride, lane_stride, step_stride, 0, lanes, steps - whole,
        panel + (long)whole * ${W});
}
</%def>
