## Common to the gemv kernels of CPUs (cpu_rows, cpu_columns): lane sums of many vectors, the store of many outputs, and
## the fold of the parts that several groups summed.
<%namespace name="put" file="/gemv/_put.cl.mako"/>

## to[i] = the sum of the C lanes of vector names[i].  The number of vectors is a power of two.  If it is below C, the
## halves of each vector are added first.  Then each step, with d = 1, 2, 4 ..., merges pairs of vectors into one: its
## lane l is the sum of lanes l and l ^ d of the first vector of the pair if bit d of l is 0, else of the second vector.
## So bit d of a vector's number becomes bit d of the number of the lane that holds its sum:
##
##   a0 a1 a2 a3 | b0 b1 b2 b3      step 1 ->      a0+a1  b0+b1  a2+a3  b2+b3      step 2, with vectors c, d ->  a b c d
<%def name="transposed_sums(real, C, names, to)"><%
    width = C
    lines = []
    while width > len(names):
        width //= 2
        halves = vector(real, width)
        lines += [f"const {halves} {v}_{width} = {v}.lo + {v}.hi;" for v in names]
        names = [f"{v}_{width}" for v in names]
    d = 1
    while d < width:
        merged = []
        for i in range(0, len(names), 2):
            pair = names[i], names[i + 1]
            # Indices of lanes, counted over both vectors: lanes l and l ^ d of the vector that bit d of l selects.
            kept, moved = (
                ", ".join(str((l ^ swap) + width * bool(l & d)) for l in range(width)) for swap in (0, d)
            )
            name = f"d{d}_{len(merged)}"
            a, b = (f"__builtin_shufflevector({', '.join(pair)}, {lanes})" for lanes in (kept, moved))
            lines.append(f"const {vector(real, width)} {name} = {a} + {b};")
            merged.append(name)
        names, d = merged, 2 * d
    T = vector(real, width)
    lines += [f"*(({T} *){to} + {i}) = {name};" for i, name in enumerate(names)]
%>${"\n    ".join(lines)}</%def>

## store_all(y, y_step, sums, count): store `count` outputs, with `finish` those from number `row` on.
## e, real: the Element, and the real type of the sums.  C: reals of a vector.  y_unit: whether y_step is 1.
<%def name="define(e, real, C, y_unit, finish)">
<%
    S = vector(real, e.components)
    fast = y_unit and not e.complex and e.storage == real and C > 1 and not finish
%>
% if fast:
typedef ${real}${C} y_vector __attribute__((aligned(${e.itemsize})));
% endif
static inline void store_all(__global ${e.name}_t *y, long y_step, const ${real} *sums, long count,
    ${S} alpha, ${S} beta, int reads_y${put.declared(finish)})
{
    long i = 0;
% if fast:
    for (; i + ${C} <= count; i += ${C}) {
        ${real}${C} v = *(const y_vector *)(sums + i) * alpha;
        if (reads_y) v += *(__global y_vector *)(y + i) * beta;
        *(__global y_vector *)(y + i) = v;
    }
% endif
    for (; i < count; ++i) put(y + i * y_step, *((const ${S} *)sums + i), alpha, beta,
        reads_y${put.at(finish, "row + i", "col")});
}
</%def>

## The last of the `parts` groups that share a block of outputs [first, last) adds the groups' sums, which are in
## `partial`, in the order of the parts, and stores y; the other groups return.
##
##   partial  | part 0: all m outputs | part 1 | ...
<%def name="fold_parts(e, real, block, first, last, finish)">
    if (!arrives_last(counters + ${block}, parts)) return;
    for (long i = ${first}; i < ${last}; ++i) {
        ${vector(real, e.components)} total = 0;
        for (uint p = 0; p < parts; ++p)
            total += *((__global const ${vector(real, e.components)} *)partial + p * m + i);
        put(y + i * y_step, total, alpha, beta, reads_y${put.at(finish, "i", 0)});
    }
</%def>
