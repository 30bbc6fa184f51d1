## axpy_columns: y = alpha * A x + beta * y on a GPU, where A is contiguous along the outputs (a transposed row-major
## matrix).  Work-group g has block g / parts of the outputs, and part g % parts of the summed axis.
##
##   outputs ->   | V | V | ... | V |     W work-items have V adjacent outputs each, and each output has
##   summed  k=0  | . | . |     | . |     K = G / W of them: the k-th adds rows k, k + K, k + 2 K ... of A, and loads U
##     |     k=1  | . | . |     | . |     rows before it adds the first of them
##     v     ...
##
## The K sums of an output are added in local memory (_column_sums).  With `split`, several work-groups share the summed
## axis, and the last of them to finish adds the parts in order (_column_parts).
## Names in the kernel: k, as above; block, first, last: see _part; first_output, of the block; i, a row of A; s<q> and
## t<q>, the work-item's sums of vector q (t only if elements are complex: see _gemv); vector_sums and element_sums, one
## local array as vectors and as elements (_column_sums).
##
## G, W, V, U: as above; G work-items are a group.  If V > 1, loads are aligned and V divides m.
## unit: whether A's stride along the outputs is 1; else V is 1.  Q: the most vectors x of a launch.  vectors_at_once:
## the vectors whose sums are in local memory at the same time.
## elem, real: element, and the real type of the sums.  P: reals of an element.  C = V * P; T, E: types of C and
## of P reals.  conj: conjugate A.  finish: the Finish that is applied to each sum, or None (_put).
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%namespace name="part" file="/gemv/_part.cl.mako"/>
<%namespace name="sums" file="/gemv/_column_sums.cl.mako"/>
<%namespace name="column_parts" file="/gemv/_column_parts.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(elem)}
${put.define(elem, real, finish)}
${gemv.adjacent(elem, real, V, True)}
% if split:
${fix_up.define()}
% endif
## load_row: load row `at` of A, and the elements of x for it, to the u-th registers.  add_row: add the products of the
## u-th registers to the sums.
<%def name="load_row(u, at)">
        const ${T} v${u} = load${V}(a + (${at}) * a_sum);
% for q in range(Q):
        const ${E} x${u}_${q} = load_one(x + (${at}) * x_step${gemv.module.column(q, "x_pitch", Q)});
% endfor
</%def>
<%def name="add_row(u)">
% for q in range(Q):
% if elem.complex:
        s${q} += v${u} * x${u}_${q}.x;
        t${q} += v${u} * x${u}_${q}.y;
% else:
        s${q} += v${u} * x${u}_${q};
% endif
% endfor
</%def>
__kernel ${group.of_size(G, few_registers=P == Q == 1 and real not in ("double", "ulong"))}
void ${kernel("gemv_axpy_columns")}
{
    __local ${T} memory[${G * vectors_at_once}];
    __local ${T} *const vector_sums = LOCAL_ARRAY(memory);
    __local ${E} *const element_sums = (__local ${E} *)vector_sums;
    const uint lid = get_local_id(0), k = lid / ${W}u;
${part.bounds()}\
    const long first_output = (long)block * ${W * V};
    // Work-items beyond the last outputs repeat those; their sums are not stored.
    a += a_offset + min(first_output + lid % ${W}u * ${V}, m - ${V})${"" if unit else " * a_out"};
    x += x_offset;
    y += y_offset;
${put.advance_arrays(finish)}\
% for q in range(Q):
    ${T} s${q} = 0${f", t{q} = 0" if elem.complex else ""};
% endfor
    long i = first + k;
    for (; i + ${(U - 1) * G // W} < last; i += ${U * G // W}) {
% for u in range(U):
${load_row(u, f"i + {u * G // W}")}\
% endfor
% for u in range(U):
${add_row(u)}\
% endfor
    }
    for (; i < last; i += ${G // W}) {
${load_row(0, "i")}\
${add_row(0)}\
    }
${sums.add_block()}\
% if split:
${column_parts.add_parts()}\
% endif
}
