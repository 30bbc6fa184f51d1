## Epilogue: the operations on each element of alpha * A @ B + beta * C before it is stored.
## problem: a GemmProblem or a Finish.
##   problem.epilogue     a tuple of portable_gpu.codegen.epilogue.Stage
##   problem.extras       the layout of each array that a stage reads: e0, e1, ...; with a reader, rows run over axes
##   problem.transposed   whether the kernel's rows are C's columns
##
## How a kernel uses it:
##   ${epilogue.define(problem)}                         once, after NAME_load of the elements of e0, ...
##   parameters e0, e0_offset, e0_row, e0_col ...        stored_operands of portable_gpu.codegen.epilogue
##   e0 += e0_offset + batch offset                     in the kernel (see gemm/_operands)
##   v = EPILOGUE(v, row, col)                          v of type value_t at the kernel's (row, col)
##   v = EPILOGUE_OF_VALUES(v, row, col, x0, ...)       the same, given the elements of e0, ... (of_values)
## EPILOGUE is v itself where there are no stages.  Functions that call it have the parameters that `typed` declares and
## are called with the arguments that `passed` names.  Arithmetic of values of the Element `compute` is here as well:
##   values(compute)        value_t, real_t (the type of its components), R(literal), MUL(p, q)
##   arithmetic(compute)    the same, and MAD(acc, p, q), scaled(factor, v)
<%namespace name="scale" file="/common/scale.cl.mako"/>
<%def name="values(compute)">
typedef ${compute.real} real_t;
typedef ${compute.value} value_t;
#define R(x) ${"x##f" if compute.real == "float" else "x"}
% if compute.complex:
#define MUL(p, q) ((value_t)((p).x * (q).x - (p).y * (q).y, (p).x * (q).y + (p).y * (q).x))
% else:
#define MUL(p, q) ((p) * (q))
% endif
</%def>

<%def name="arithmetic(compute)">
${values(compute)}
% if compute.complex:
#define MAD(acc, p, q) (acc.x = (p).x * (q).x + acc.x, acc.y = (p).x * (q).y + acc.y, \
                        acc.x = -(p).y * (q).y + acc.x, acc.y = (p).y * (q).x + acc.y)
% else:
#define MAD(acc, p, q) (acc = ${"(p) & (q) | acc" if compute.name == "b8" else "(p) * (q) + acc"})
% endif
${scale.define("value_t", compute.complex)}
</%def>

## An expression: the loaded value `text` of Element e as a value_t.
<%def name="convert(compute, e, text)">\
% if compute.complex and not e.complex:
(value_t)(${text}, 0)\
% elif compute.complex and compute.real != e.real:
convert_${compute.value}(${text})\
% else:
(value_t)(${text})\
% endif
</%def>

<%! from portable_gpu.codegen.epilogue import offset_of, strides_of %>
## Parameters for e0, ... and their strides, each after a comma, and the same as arguments.
<%def name="typed(problem)">\
% for j, x in enumerate(problem.extras):
, __global const ${x.elem.name}_t *e${j}\
${"".join(f", {ctype} {name}" for name, ctype in strides_of(f"e{j}", x).items())}\
% endfor
</%def>
<%def name="passed(problem)">\
${"".join(f", {', '.join((f'e{j}', *strides_of(f'e{j}', x)))}" for j, x in enumerate(problem.extras))}\
</%def>

<%def name="define(problem, of_values=False)">
% if not problem.epilogue:
#define EPILOGUE(v, row, col) (v)
% else:
<% written = [stage.written(problem.compute) for stage in problem.epilogue] %>\
% for name, ctype, width in dict.fromkeys(helper for _, helpers in written for helper in helpers):
<% file = "magnitudes" if name in MAGNITUDES else "arithmetic" %>\
${getattr(local.get_namespace(f"/common/{file}.cl.mako"), name)(ctype, width)}
% endfor
#define EPILOGUE(v, row, col) epilogue(v, ${"col, row" if problem.transposed else "row, col"}${passed(problem)})
static inline value_t epilogue(value_t v, long row, long col${typed(problem)})
{
${stages(problem, written, lambda i: element(problem, i))}\
    return v;
}
% if of_values:
<% values = "".join(f", x{i}" for i in range(len(problem.extras))) %>\
#define EPILOGUE_OF_VALUES(v, row, col${values}) \
    epilogue_of_values(v, ${"col, row" if problem.transposed else "row, col"}${values})
static inline value_t epilogue_of_values(value_t v, long row, long col${"".join(f", value_t x{i}"
    for i in range(len(problem.extras)))})
{
${stages(problem, written, lambda i: f"x{i}")}\
    return v;
}
% endif
% endif
</%def>

## An expression: the element of e{i} at (row, col) of C, as a value_t.
<%def name="element(problem, i)">${convert(problem.compute, problem.extras[i].elem,
    f"{problem.extras[i].elem.name}_load(e{i} + {offset_of(f'e{i}', problem.extras[i])})")}</%def>

## The statements of all stages.  written: the C text of each; value(i): an expression for the element of e{i}.
<%def name="stages(problem, written, value)"><% i = -1 %>\
% for stage, (text, _) in zip(problem.epilogue, written):
    {   // ${stage.name}
% for name in stage.reads:
<% i += 1 %>\
        const value_t ${name} = ${value(i)};
% endfor
        v = (${text});
    }
% endfor
</%def>

## UPDATED(acc, p): alpha times the sum `acc` of products, plus beta times the element of C at p.
## RESULT(acc, row, col): the result for C at (row, col).  The kernel has alpha, beta, c, c_row
## and c_col in scope.
<%def name="result(problem)">
% if problem.reads_c:
#define UPDATED(acc, p) (scaled(alpha, acc) \
    + scaled(beta, ${convert(problem.compute, problem.c.elem, f"{problem.c.elem.name}_load(p)")}))
% else:
#define UPDATED(acc, p) scaled(alpha, acc)
% endif
#define RESULT(acc, row, col) EPILOGUE(UPDATED(acc, c + (row) * c_row + (col) * c_col), row, col)
</%def>
