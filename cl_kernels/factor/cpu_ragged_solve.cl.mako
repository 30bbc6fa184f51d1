## X = L^-1 B with small lower triangles of different sizes on a CPU, in place of B, a work-item for some
## columns of each B.
##
## problem, n, m, groups   as in solve        columns   of a work-item
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, rank = problem.elem, len(problem.batch)
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.reciprocal(e)}
#define AT(x, i, j) (x + (i) * x##_row + (j) * x##_col)

__kernel ${group.of_size(1)}
void solve(__global const long *table, long groups${operands.parameters("l", e, rank)}${operands.parameters("b", e, rank, "")}${operands.batch_parameters(rank)})
{
    const long product = get_group_id(0) / groups, group = get_group_id(0) % groups;
${operands.locate(["l", "b"], rank, "product")}
${ragged_.pair()}
    const long from = group * ${columns}, to = min(m, from + ${columns});
    for (int j = 0; j < n; ++j) {
% if not problem.unit:
        value_t d = ${e.name}_load(AT(l, j, j));
% if problem.l.conj:
        d.y = -d.y;
% endif
        d = reciprocal(d);
        for (long c = from; c < to; ++c) *AT(b, j, c) = MUL(*AT(b, j, c), d);
% endif
        for (int i = j + 1; i < n; ++i) {
            value_t v = ${e.name}_load(AT(l, i, j));
% if problem.l.conj:
            v.y = -v.y;
% endif
            for (long c = from; c < to; ++c) *AT(b, i, c) -= MUL(v, *AT(b, j, c));
        }
    }
}
