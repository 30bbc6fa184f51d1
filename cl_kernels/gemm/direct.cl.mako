## C = epilogue(alpha * A @ B + beta * C), with a work-item for each element, without local memory, on any device.  It
## is used for k = 0, and for batches of tiny products with enough elements for all work-items of the device.  The
## launch is one-dimensional, in groups of `group_size`, and computes the elements `first` to `count` - 1 of the batch.
##
##   element i   ->   product i / (m n), row i % (m n) / n, column i % n
##
## A few steps of k are loaded before the first of them is multiplied, so that these loads overlap.  If there are few
## elements, lanes = 2^lanes_log2 adjacent work-items share one: lane l multiplies steps l, l + lanes, ... of k, and the
## first lane stores the element.
##
## max_lanes  the largest number of lanes         index  a C type that holds the number of all elements of the batch
## acc        Accumulator of a sum over lanes; in the kernel, the variable acc is the sum of one lane
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="subgroup" file="/subgroup/subgroup.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
rank = len(problem.batch)
names = ["a", "b", "c"] + [f"e{i}" for i in range(len(problem.extras))]
factors = {"a": (problem.a, "a_col"), "b": (problem.b, "b_row")}  # with the names of their strides along k
steps = 4 if problem.compute.complex else 8
%>
## Load the values of `steps` steps to a0, b0, a1 ...  guarded: whether they are the last steps, of which only
## `steps_left` exist.
<%def name="load(guarded)">
% for j in range(steps - 1 if guarded else steps):
% for name, (operand, stride) in factors.items():
<% loaded = f"{operand.elem.name}_load({name} + {j} * {stride})" %>\
        value_t ${name}${j} = ${f"{j} >= steps_left ? (value_t)(0) : " if guarded else ""}
            ${epilogue.convert(problem.compute, operand.elem, loaded)};
% if operand.conj:
        ${name}${j}.y = -${name}${j}.y;
% endif
% endfor
% endfor
</%def>
% for e in problem.elements:
${element.scalar(e)}
% endfor
${epilogue.arithmetic(problem.compute)}
${epilogue.define(problem)}
${epilogue.result(problem)}
% if max_lanes > 1:
${accumulator.define(acc)}
${subgroup.define(acc, max_lanes, True)}
% endif

__kernel ${"SUBGROUP_KERNEL " if max_lanes > 1 else ""}${group.of_size(group_size)}
void ${kernel("direct")}
{
% if max_lanes > 1:
    SUBGROUP_SCRATCH(acc_t, scratch, ${group_size});
    const uint lanes = 1u << lanes_log2, lane = get_local_id(0) & (lanes - 1u);
    const long unclamped = first + (get_global_id(0) >> lanes_log2);
% else:
    const long unclamped = first + get_global_id(0);
% endif
    const long i = min(unclamped, count - 1);
    const ${index} product_size = m * n, in_product = (${index})i % product_size;
    const long row = in_product / (${index})n, col = in_product % (${index})n;
    const bool is_stored = unclamped < count${triangle.only(problem, 'row', 'col')};
${operands.locate(names, rank, f"({index})i / product_size")}
    a += row * a_row;
    b += col * b_col;
    value_t acc = (value_t)(0);
% if max_lanes > 1:
    long steps_left = is_stored ? (k + (lanes - 1u) - lane) >> lanes_log2 : 0;
    a += lane * a_col;
    b += lane * b_row;
    a_col *= lanes;
    b_row *= lanes;
% else:
    long steps_left = is_stored ? k : 0;
% endif
    for (; steps_left >= ${steps}; steps_left -= ${steps}, a += ${steps} * a_col, b += ${steps} * b_row) {
${load(False)}
% for j in range(steps):
        MAD(acc, a${j}, b${j});
% endfor
    }
    if (steps_left > 0) {
${load(True)}
% for j in range(steps - 1):
        if (${j} < steps_left) MAD(acc, a${j}, b${j});
% endfor
    }
% if max_lanes > 1:
    if (lanes > 1) {
<% fields = [f.name for f in acc.fields] %>\
        acc_t sum;
% for name, part in zip(fields, (".x", ".y") if problem.compute.complex else ("",)):
        sum.${name} = acc${part};
% endfor
        sum = acc_t_subgroup${max_lanes}(sum, SUBGROUP_SLOT(scratch), lanes);
        acc = (value_t)(${", ".join(f"sum.{name}" for name in fields)});
    }
    if (lane) return;
% endif
    if (!is_stored) return;
    ${problem.c.elem.name}_store(c + row * c_row + col * c_col, RESULT(acc, row, col));
}
