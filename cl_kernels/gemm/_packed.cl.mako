## The C functions of the gemm kernels of CPUs (packed, packed_whole): elements, pack_a and pack_b (_pack), and the
## register tile (_packed_tile).
##
## loads   the vector loads of the packing: pairs of an element and a width in components
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="pack" file="/gemm/_pack.cl.mako"/>
<%namespace name="tile" file="/gemm/_packed_tile.cl.mako"/>
<%def name="functions(problem, policy, triangle)">
<%include file="/common/prelude.cl.mako"/>
#define LEAST(x, y) ((x) < (y) ? (x) : (y))
% if triangle:
#define MOST(x, y) ((x) > (y) ? (x) : (y))
% endif
% for e in problem.elements:
${element.scalar(e)}
% endfor
% for e, width in loads:
${element.vector_load(e, width, False)}
% endfor
${epilogue.arithmetic(problem.compute)}
${epilogue.define(problem)}
${epilogue.result(problem)}
${pack.vectors(problem.compute)}
${pack.define("pack_a", problem.a, problem.compute, policy.item_m)}
${pack.define("pack_b", problem.b, problem.compute, policy.item_n)}
${tile.define(problem, policy, triangle)}
</%def>
