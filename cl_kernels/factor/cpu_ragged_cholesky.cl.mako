## A = L L^H of small matrices of different sizes on a CPU, a work-item for each: row by row, each element by
## the product of two rows that are done.
##
## problem, in_place, n, report   as in cholesky
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, rank = problem.elem, len(problem.batch)
names = ["l"] if in_place else ["a", "l"]
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}
#define AT(x, i, j) (x + (i) * x##_row + (j) * x##_col)

__kernel ${group.of_size(1)}
void cholesky(__global const long *table, long first\
% if not in_place:
${operands.parameters("a", e, rank)}\
% endif
${operands.parameters("l", e, rank, "")}, __global long *report, long report_offset${operands.batch_parameters(rank)})
{
    const long product = get_group_id(0);
${operands.locate(names, rank, "product")}
${ragged_.matrix(names, "long")}
    report += report_offset + 2 * product;
    long failed = -1;
    real_t bad_pivot = 0;
    for (long i = 0; i < n; ++i) {
        for (long j = 0; j <= i; ++j) {
            value_t v = ${e.name}_load(AT(${names[0]}, i, j));
            for (long k = 0; k < j; ++k)
                v -= MUL(${e.name}_load(AT(l, i, k)), CONJ(${e.name}_load(AT(l, j, k))));
            if (i == j) {
                const real_t pivot = REAL(v);
                if (!(pivot > 0 && pivot < (real_t)INFINITY) && failed < 0) {
                    failed = i;
                    bad_pivot = pivot;
                }
                v = (value_t)(${"sqrt(pivot), 0" if e.complex else "sqrt(pivot)"});
                if (failed >= 0) v = (value_t)(NAN);
            } else {
                v /= REAL(${e.name}_load(AT(l, j, j)));
            }
            ${e.name}_store(AT(l, i, j), v);
        }
% if not in_place:
        for (long j = i + 1; j < n; ++j) ${e.name}_store(AT(l, i, j), (value_t)(0));
% endif
    }
    if (first == 0 || (failed >= 0 && report[0] < 0)) {
        report[0] = failed < 0 ? -1 : first + failed;
        report[1] = ${"as_long(bad_pivot)" if e.needs_fp64 else "(long)as_int(bad_pivot)"};
    }
}
