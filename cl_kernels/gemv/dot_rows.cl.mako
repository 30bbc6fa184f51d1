## dot_rows: y = alpha * A x + beta * y on a GPU, where A is contiguous along the summed axis.
##
##   work-group of G:  | L lanes | L lanes | ... |      each run of L lanes sums R rows
##   row block             0         1      ...         R * G / L rows a work-group
##
## If L is below the sub-group size, one sub-group sums several rows of a narrow matrix; if L equals it,
## each sub-group sums R rows.  The lanes fold their sums within the sub-group; the first lane holds the
## results.
##
## G, L: work-items of a work-group and of a run.  R: rows of a run.  V: elements of a load, which is aligned if V > 1.
## unit: a_sum is 1 (else V is 1).  elem, real: element, and the real type of the sums.  P: reals of an element.
## C = V * P; T: type of C reals.  Q: the most vectors x of a run (_gemv).  conj: conjugate A.  x_vector: x is aligned,
## x_step == 1.  vectors_per_load: see _rows.  acc: Accumulator of R * Q sums.  stagger: Stagger of groups along rows,
## or None.  finish: see _put.  shared: each run computes Q of the `vectors`; the runs of the same R rows follow each
## other (here R = 1, Q = 2):
##   | row 0, vectors 0 1 | row 0, vectors 2 3 | ... | row 1, vectors 0 1 | ...
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="subgroup" file="/subgroup/subgroup.cl.mako"/>
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%namespace name="rows" file="/gemv/_rows.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
# The last argument of sum_rows: the column at which the group begins.
start = f", get_group_id(0) % {stagger.starts}u * {stagger.stride * L * V}L" if stagger else ""
%>
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
% if L > 1:
${subgroup.define(acc, L)}
% endif
${rows.sum_rows(elem, real, T, P, C, V, R, Q, L, conj, unit, x_vector, vectors_per_load, stagger is not None)}

__kernel SUBGROUP_KERNEL ${group.of_size(G, few_registers=P == Q == 1 and real not in ("double", "ulong"))}
void ${kernel("gemv_dot_rows")}
{
% if L > 1:
    SUBGROUP_SCRATCH(acc_t, scratch, ${G});
% endif
    const uint lane = get_local_id(0) % ${L}u;
    const long run = (long)get_group_id(0) * ${G // L} + get_local_id(0) / ${L}u;
% if shared:
    const int col = (int)(run % (vectors / ${Q})) * ${Q};
    const long row = run / (vectors / ${Q}) * ${R};
    x += col * x_pitch;
    y += col * y_pitch;
% else:
    const long row = run * ${R};
% endif
    a += a_offset;
    x += x_offset;
    y += y_offset;
${put.advance_arrays(finish)}\
    acc_t sums = sum_rows(a, a_out, a_sum, row, m, x, x_step,
        ${'x_pitch, ' if Q > 1 else ''}${'vectors, ' if Q > 2 else ''}lane, 0,
        n${start});
% if L > 1:
    sums = acc_t_subgroup${L}(sums, SUBGROUP_SLOT(scratch));
% endif
    if (lane == 0) {
${rows.put_rows(elem, real, R, Q, finish, "col + " if shared else "")}\
    }
}
