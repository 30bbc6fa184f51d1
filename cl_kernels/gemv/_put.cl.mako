## The store of a sum as an element of y, in the gemv kernels and in gemm/skinny.
##
##   load_one(p)        one element as a value of the sums
##   put(p, sum, ...)   store alpha * sum + beta * *p, after the operations of `finish`, at p; without reads_y, *p is
##                      not read and beta not used
##
## finish: portable_gpu.codegen.epilogue.Finish, the operations on each sum; or None.
## e: Element.  r: the real type of the sums.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="scale" file="/common/scale.cl.mako"/>

<%def name="define(e, r, finish=None)">
<% T = vector(r, e.components) %>
static inline ${T} load_one(__global const ${e.name}_t *p)
{
    return (${T})${e.name}_load(p);
}
${scale.define(T, e.complex)}
% if finish:
% for other in dict.fromkeys(extra.elem for extra in finish.extras if extra.elem != e):
${element.scalar(other)}
% endfor
${epilogue.values(finish.compute)}
${epilogue.define(finish)}
% endif
static inline void put(__global ${e.name}_t *p, ${T} sum, ${T} alpha, ${T} beta, int reads_y${declared(finish)})
{
    ${T} v = scaled(alpha, sum);
    if (reads_y) v += scaled(beta, load_one(p));
    ${e.name}_store(p, ${f"EPILOGUE(({e.value})v, row, col)" if finish else f"({e.value})v"});
}
</%def>

## For `finish`: the declarations of the last parameters of `put`, their arguments for output `row` of vector `col`, and
## statements at the start of a kernel that advance pointers to the starts of the arrays.
<%def name="declared(finish)">${f", long row, long col{capture(epilogue.typed, finish)}" if finish else ""}</%def>
<%def name="at(finish, row, col)">${f", {row}, {col}{capture(epilogue.passed, finish)}" if finish else ""}</%def>
<%def name="advance_arrays(finish)">\
% for i in range(len(finish.extras) if finish else 0):
    e${i} += e${i}_offset;
% endfor
</%def>
