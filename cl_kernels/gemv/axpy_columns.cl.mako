## axpy_columns: y = alpha * A x + beta * y, where A is contiguous along the outputs (a
## transposed row-major matrix).
##
##   outputs ->   | V | V | ... | V |     W work-items own V adjacent outputs each
##   summed  k=0  | . | . |     | . |
##     |     k=1  | . | . |     | . |     K = G / W of them share an output: each walks down every
##     v     ...                          K-th row of a, U rows in flight
##
## The K sums of an output fold through local memory; with `split`, work-groups share the summed
## axis, and the last of them to finish adds the parts in their order.  Work-items with k == 0
## hold the results.
##
## G, W, V, U: as above (loads aligned, for V > 1; V divides m).  elem, real: element, and the real
## type of the sums.  P: reals of an element.  C = V * P; T, S: types of C and of P reals.  conj:
## conjugate A.  unit: a_out == 1 (else V == 1).  word: Accumulator of one real.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(elem)}
${gemv.scalars(elem, real)}
${gemv.adjacent(elem, real, V, True)}
% if split:
${accumulator.define(word)}
${group.fold_across_groups(word)}
% endif

// The sums of the work-items of one output, in the first of them.
static inline ${T} fold_down(${T} v, __local ${T} *sums)
{
    const uint lid = get_local_id(0);
    sums[lid] = v;
% for d in [G >> s for s in range(1, (G // W).bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < ${d}u) sums[lid] += sums[lid + ${d}u];
% endfor
    return sums[lid];
}

<%def name="add_row(u)">
% if elem.complex:
        s += v${u} * x${u}.x;
        t += v${u} * x${u}.y;
% else:
        s += v${u} * x${u};
% endif
</%def>
__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void gemv_axpy_columns(${gemv.arguments(elem, real, split)})
{
    __local ${T} memory[${G}];
    __local ${T} *const sums = LOCAL_ARRAY(memory);
    const uint lid = get_local_id(0), k = lid / ${W}u;
% if split:
    const uint part = get_group_id(0) % parts, block = get_group_id(0) / parts;
    const long first = part * part_size, last = min(first + part_size, n);
% else:
    const uint block = get_group_id(0);
    const long first = 0, last = n;
% endif
    const long o = ((long)block * ${W} + lid % ${W}u) * ${V};
    // Work-items beyond the last outputs repeat those; their sums are not stored.
    a += a_offset + min(o, m - ${V})${"" if unit else " * a_out"};
    x += x_offset;
    y += y_offset;
    ${T} s = 0${", t = 0" if elem.complex else ""};
    long i = first + k;
    for (; i + ${(U - 1) * G // W} < last; i += ${U * G // W}) {
% for u in range(U):
        const ${T} v${u} = load${V}(a + (i + ${u * G // W}) * a_sum);
        const ${S} x${u} = load_one(x + (i + ${u * G // W}) * x_step);
% endfor
% for u in range(U):
${add_row(u)}\
% endfor
    }
    for (; i < last; i += ${G // W}) {
        const ${T} v0 = load${V}(a + i * a_sum);
        const ${S} x0 = load_one(x + i * x_step);
${add_row(0)}\
    }
% if elem.complex:
    s = ${f"{gemv.module.signs(real, C)} * s + {gemv.module.swapped('t', C)}" if conj else f"s - {gemv.module.signs(real, C)} * {gemv.module.swapped('t', C)}"};
% endif
    s = fold_down(s, sums);
% if split:
    __local uint is_last;
    volatile __global uint *words = (volatile __global uint *)partial;
    if (k == 0 && o < m) {
% for c in range(C):
        word_publish(words + ((part * m + o) * ${P} + ${c}) * ${word.bytes // 4}, (word){${gemv.module.lane("s", c, C)}});
% endfor
    }
    DEVICE_FENCE();
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (lid == 0) is_last = word_last(counters + block, parts);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool holds = k == 0 && o < m && is_last;
    if (is_last) {
        s = 0;
        for (uint p = k; p < parts && o < m; p += ${G // W}) {
% for c in range(C):
            ${gemv.module.lane("s", c, C)} += word_collect(words + ((p * m + o) * ${P} + ${c}) * ${word.bytes // 4}).re;
% endfor
        }
        s = fold_down(s, sums);
    }
% else:
    const bool holds = k == 0 && o < m;
% endif
    if (holds) {
% for q in range(V):
        put(y + (o + ${q}) * y_step, ${gemv.module.build(real, [gemv.module.lane("s", q * P + p, C) for p in range(P)])}, alpha, beta, reads_y);
% endfor
    }
}
