## C = epilogue(alpha * (P_0 + P_1 + ...) + beta * C): the last step of a product whose k was
## split.  The parts are added in order, so the result repeats bit by bit.
##
##   partial | P_0 | P_1 | ... |   per product: `splits` matrices (m, n), rows adjacent
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/gemm/_epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
rank = len(problem.batch)
names = ["c"] + [f"e{i}" for i in range(len(problem.extras))]
%>
% for e in problem.elements:
${element.scalar(e)}
% endfor
${epilogue.arithmetic(problem.compute)}
${epilogue.define(problem)}
${epilogue.result(problem)}

__kernel __attribute__((reqd_work_group_size(${group_size}, 1, 1)))
void split_sum(long m, long n, long count, long first_product, int splits, __global const value_t *restrict partial\
${operands.parameters("c", problem.c.elem, rank, "")}${epilogue.parameters(problem)}, value_t alpha, value_t beta\
${operands.batch_parameters(rank)})
{
    const long i = get_global_id(0);
    if (i >= count) return;
    const long product = i / (m * n), place = i % (m * n), row = place / n, col = place % n;
${operands.locate(names, rank, "first_product + product")}
    partial += product * splits * m * n + place;
    value_t acc = partial[0];
    for (int s = 1; s < splits; ++s) acc ${"|" if problem.compute.name == "b8" else "+"}= partial[s * m * n];
    ${problem.c.elem.name}_store(c + row * c_row + col * c_col, RESULT(acc, row, col));
}
