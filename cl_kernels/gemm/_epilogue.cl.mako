## Epilogue: what becomes of each element of alpha * A @ B + beta * C before it is stored.
##
##   problem.epilogue   a tuple of portable_gpu.codegen.epilogue.Stage
##   problem.extras     an Operand for each array that a stage reads: e0, e1, ...
##
## How a kernel uses it:
##   ${epilogue.define(problem)}                         once, after the elements' loads
##   __kernel void k(... ${epilogue.parameters(problem)})   `, e0, e0_offset, e0_row, e0_col ...`
##   e0 += e0_offset + batch offset                     in the kernel (see _operands)
##   v = EPILOGUE(v, row, col)                          v of type value_t at (row, col) of C
## EPILOGUE is v itself where there are no stages.  The defs of scalar arithmetic are here as
## well: value_t, real_t, R(literal), MUL(x, y), MAD(acc, x, y), scaled(alpha, v).
<%def name="arithmetic(compute)">
typedef ${compute.real} real_t;
typedef ${compute.value} value_t;
#define R(x) ${"x##f" if compute.real == "float" else "x"}
% if compute.complex:
#define MUL(p, q) ((value_t)((p).x * (q).x - (p).y * (q).y, (p).x * (q).y + (p).y * (q).x))
#define MAD(acc, p, q) (acc.x = (p).x * (q).x + acc.x, acc.y = (p).x * (q).y + acc.y, \
                        acc.x = -(p).y * (q).y + acc.x, acc.y = (p).y * (q).x + acc.y)
// A real factor scales infinities without making NaN of them.
static inline value_t scaled(value_t alpha, value_t v)
{
    return alpha.y == 0 ? alpha.x * v : MUL(alpha, v);
}
% else:
#define MUL(p, q) ((p) * (q))
#define MAD(acc, p, q) (acc = ${"(p) & (q) | acc" if compute.name == "b8" else "(p) * (q) + acc"})
static inline value_t scaled(value_t alpha, value_t v) { return alpha * v; }
% endif
</%def>

## One loaded value of element e as a value_t.
<%def name="convert(compute, e, text)">\
% if compute.complex and not e.complex:
(value_t)(${text}, 0)\
% elif compute.complex and compute.real != e.real:
convert_${compute.value}(${text})\
% else:
(value_t)(${text})\
% endif
</%def>

<%def name="parameters(problem)">\
% for i, extra in enumerate(problem.extras):
, __global const ${extra.elem.name}_t *restrict e${i}, long e${i}_offset, long e${i}_row, long e${i}_col${''.join(f', long e{i}_batch{d}' for d in range(len(problem.batch)))}\
% endfor
</%def>

<%def name="define(problem)"><% i = -1 %>
% if not problem.epilogue:
#define EPILOGUE(v, row, col) (v)
% else:
#define EPILOGUE(v, row, col) epilogue(v, row, col${''.join(f', e{j}, e{j}_row, e{j}_col' for j in range(len(problem.extras)))})
static inline value_t epilogue(value_t v, long row, long col${''.join(f', __global const {x.elem.name}_t *e{j}, long e{j}_row, long e{j}_col' for j, x in enumerate(problem.extras))})
{
% for stage in problem.epilogue:
    {   // ${stage.name}
% for name in stage.reads:
<% i += 1 %>\
        const value_t ${name} = ${convert(problem.compute, problem.extras[i].elem, f"{problem.extras[i].elem.name}_load(e{i} + row * e{i}_row + col * e{i}_col)")};
% endfor
        v = (${stage.expression});
    }
% endfor
    return v;
}
% endif
</%def>

## RESULT(acc, row, col): what the sum `acc` of products makes of C at (row, col).  The kernel has
## alpha, beta, c, c_row and c_col in scope.  In a transposed problem C's rows are its columns.
<%def name="result(problem)">
% if problem.reads_c:
#define UPDATED(acc, row, col) (scaled(alpha, acc) + scaled(beta, ${convert(problem.compute, problem.c.elem, f"{problem.c.elem.name}_load(c + (row) * c_row + (col) * c_col)")}))
% else:
#define UPDATED(acc, row, col) scaled(alpha, acc)
% endif
#define RESULT(acc, row, col) EPILOGUE(UPDATED(acc, row, col), ${"col, row" if problem.transposed else "row, col"})
</%def>
