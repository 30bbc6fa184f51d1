## long_rows: y = alpha * A x + beta * y on a GPU for few rows, each long and contiguous.
##
##   row block (R rows)   |  part 0  |  part 1  | ... |      work-group g: block g / parts, part g % parts
##   partial[block][part]     R sums     R sums              of each vector: an accumulator, in 32-bit words
##
## If there are several parts, the last work-group of a row block to finish adds them in order, so the
## result does not depend on which group is last.  Its first work-item holds the results.
##
## G, S: work-items of a work-group and of a sub-group.  R: rows of a block.  V: elements of a load, which is aligned if
## V > 1.  unit: a_sum is 1 (else V is 1).  elem, real: element, and the real type of the sums.  P: reals of an element.
## C = V * P; T: type of C reals.  Q: the most vectors x (_gemv).  conj: conjugate A.  x_vector: x is aligned, x_step is
## 1.  vectors_per_load: see _rows.  acc: Accumulator of R * Q sums.  split: whether there are several parts (_part).
## finish: see _put.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%namespace name="part" file="/gemv/_part.cl.mako"/>
<%namespace name="rows" file="/gemv/_rows.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(elem)}
${put.define(elem, real, finish)}
${gemv.adjacent(elem, real, V, True)}
% if vectors_per_load > 1:
${gemv.adjacent(elem, real, vectors_per_load, True)}
% endif
% if not x_vector:
${gemv.gather(elem, real, V)}
% endif
${accumulator.define(acc)}
${group.define(acc, G, S)}
% if split:
${fix_up.define()}
${fix_up.accumulators(acc)}
% endif
${rows.sum_rows(elem, real, T, P, C, V, R, Q, G, conj, unit, x_vector, vectors_per_load)}

__kernel SUBGROUP_KERNEL ${group.of_size(G, few_registers=P == Q == 1 and real not in ("double", "ulong"))}
void ${kernel("gemv_long_rows")}
{
    SUBGROUP_SCRATCH(acc_t, scratch, ${G});
    __local acc_t wave[${G // S}];
    const uint lid = get_local_id(0);
${part.bounds()}\
    const long row = (long)block * ${R};
    a += a_offset;
    x += x_offset;
    y += y_offset;
${put.advance_arrays(finish)}\
    acc_t sums = sum_rows(a, a_out, a_sum, row, m, x, x_step,
        ${'x_pitch, ' if Q > 1 else ''}${'vectors, ' if Q > 2 else ''}lid, first, last);
    sums = acc_t_group(sums, SUBGROUP_SLOT(scratch), LOCAL_ARRAY(wave));
% if split:
    __local uint is_last;
    volatile __global uint *block_at = (volatile __global uint *)partial + (size_t)block * parts * ${acc.bytes // 4};
${fix_up.arrive_by_one(acc, f"block_at + part * {acc.bytes // 4}", "sums", "counters + block", "parts", "lid == 0")}\
    const bool holds = lid == 0 && is_last;
    if (is_last) {
${fix_up.fold(acc, "sums", f"block_at + p * {acc.bytes // 4}", "lid", G, "parts")}\
        sums = acc_t_group(sums, SUBGROUP_SLOT(scratch), LOCAL_ARRAY(wave));
    }
${fix_up.after_branch()}\
% else:
    const bool holds = lid == 0;
% endif
    if (holds) {
${rows.put_rows(elem, real, R, Q, finish)}\
    }
}
