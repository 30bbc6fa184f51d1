## C = epilogue(alpha * A @ B + beta * C), one work-item per element, no local memory.  It is the first
## rung of the ladder, and the path of k = 0 and of batches of tiny products, whose elements fill the
## device.
##
##   work-item i   ->   product i / (m n), row i % (m n) / n, column i % n
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
rank = len(problem.batch)
names = ["a", "b", "c"] + [f"e{i}" for i in range(len(problem.extras))]
%>
<%def name="value(name, operand, pointer)">
<% loaded = f"{operand.elem.name}_load({pointer})" %>\
        value_t ${name}_value = ${epilogue.convert(problem.compute, operand.elem, loaded)};
% if operand.conj:
        ${name}_value.y = -${name}_value.y;
% endif
</%def>
% for e in problem.elements:
${element.scalar(e)}
% endfor
${epilogue.arithmetic(problem.compute)}
${epilogue.define(problem)}
${epilogue.result(problem)}

__kernel ${group.of_size(group_size)}
void direct(long m, long n, long k, long count, long first\
${operands.parameters("a", problem.a.elem, rank)}${operands.parameters("b", problem.b.elem, rank)}\
${operands.parameters("c", problem.c.elem, rank, "")}${epilogue.parameters(problem)}, value_t alpha, value_t beta\
${operands.batch_parameters(rank)})
{
    const long i = first + get_global_id(0);
    if (i >= count) return;
    const long row = i % (m * n) / n, col = i % n;
${operands.locate(names, rank, "i / (m * n)")}
    a += row * a_row;
    b += col * b_col;
    value_t acc = (value_t)(0);
    for (long s = 0; s < k; ++s, a += a_col, b += b_row) {
${value("a", problem.a, "a")}
${value("b", problem.b, "b")}
        MAD(acc, a_value, b_value);
    }
    ${problem.c.elem.name}_store(c + row * c_row + col * c_col, RESULT(acc, row, col));
}
