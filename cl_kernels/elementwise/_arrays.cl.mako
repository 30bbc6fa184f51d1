## Functions of all elementwise kernels: loads and stores of their arrays.
##
## Arrays are inputs a0, a1, ... and out.  NAME_data is an array's buffer, NAME_offset its start, NAME_outer0, ... its
## strides along the outer axes, and NAME_stride that along the inner one; they count elements.
##
## f: portable_gpu.codegen.functions.Function.  Its arguments are the values of the inputs, then the old value of the
## output once for each of the `updated` inputs that are the output itself, then numbers that are arguments of the call.
## helpers: the text of the functions that f calls.  inputs: Element by name.  result: the Element of the output.
## numbers: the C types and the texts of the numbers.  steps: for each array, by name, its stride along the inner axis
## if that is 0 or 1, else 2.  outer: the number of outer axes.  axes: portable_gpu.codegen.axes, which writes index
## arithmetic.  V: elements of a vector.  index: the C type of indices.
<%namespace name="element" file="/common/element.cl.mako"/>

## Define the loads and stores, and f for 1 and V elements.  aligned: see vector_load of common/element.
<%def name="define(aligned)">
<%
    every = {e.name: e for e in (*inputs.values(), result)}
    loaded = {e.name for n, e in inputs.items() if steps[n] == 1} | {result.name}
%>
% for e in every.values():
${element.scalar(e)}
% if V > 1 and e.name in loaded:
${element.vector_load(e, V, aligned)}
% endif
% endfor
% if V > 1 and steps["out"] == 1:
${element.vector_store(result, V, aligned)}
% endif
${helpers}
${f.define(1)}
% if V > 1:
${f.define(V)}
% endif
</%def>

## Declare pointers to the start of row `row` of every array, NAME + suffix.  A row is a position on the outer axes.
<%def name="rows_of(suffix='')">\
% for n, e in [*inputs.items(), ("out", result)]:
    __global ${"const " if n != "out" else ""}${e.name}_t *${n}${suffix} = ${n}_data
        + (${n}_offset + ${axes.offset("outer", n, axes.digits("outer", outer, "row"))});
% endfor
</%def>

## An expression: w elements of array n, from column `at` on.
<%def name="load(n, e, w, at, suffix='')">\
<%
    row = f"{n}{suffix}"
    address = lambda at: {0: row, 1: f"{row} + ({at})", 2: f"{row} + ({at}) * {n}_stride"}[steps[n]]
%>\
% if w == 1 or steps[n] == 0:
${f"({e.real}{w})" if w > 1 else ""}(${e.name}_load(${address(at)}))\
% elif steps[n] == 1:
${e.name}_load${w}(${address(at)})\
% else:
(${e.real}${w})(${", ".join(f"{e.name}_load({address(f'{at} + {j}')})" for j in range(w))})\
% endif
</%def>

## The texts of the function's arguments, for w elements at column `at`.
<%def name="arguments(w, at, suffix='')">\
<%
    old = [("out", result)] * updated
    values = [capture(load, n, e, w, at, suffix) for n, e in [*inputs.items(), *old]]
    values += [text if w == 1 else f"({ctype}{w})({text})" for ctype, text in numbers]
%>\
${", ".join(values)}\
</%def>

## Store w values `v`, the name of a variable, at column `at`.
<%def name="store(w, at, v, suffix='')">\
% if w > 1 and steps["out"] == 1:
${result.name}_store${w}(out${suffix} + (${at}), ${v});\
% else:
<% stride = "" if steps["out"] == 1 else " * out_stride" %>\
% for j in range(w):
${result.name}_store(out${suffix} + (${f"{at} + {j}" if j else at})${stride}, ${v}${component(w, j)}); \
% endfor
% endif
</%def>
