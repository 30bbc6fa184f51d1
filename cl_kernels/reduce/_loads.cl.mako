## The loads of the inputs x and y of reductions, by parts: a real number has one part, a
## complex number two (real, imaginary).  A streamed input is read element by element; an input that is
## not streamed holds one value for each result.
##   LOAD_NAME_W(parts, p)   declare the parts of W neighbouring elements at p, for the Element NAME
## r: the Reduction; e, n: the Element and the name of an input; w: elements at a time; NAME_row: the row's first
## element.  spread: names of the streamed inputs that have one element for all lanes of a vector (a stride of 0).
<%namespace name="element" file="/common/element.cl.mako"/>
<%!
    from portable_gpu.codegen.reductions import value_names
%>

<%def name="define(e, w, aligned)">
% if w > 1:
${element.vector_load(e, w * e.components, aligned)}
% endif
% if not e.complex:
#define LOAD_${e.name}_${w}(v, p) const ${vector(e.real, w)} v = ${e.name}_load${w if w > 1 else ""}(p)
% elif w > 1:
#define LOAD_${e.name}_${w}(re, im, p) const ${vector(e.real, 2 * w)} re##_im = ${e.name}_load${2 * w}(p); \
    const ${vector(e.real, w)} re = re##_im.even, im = re##_im.odd
% else:
#define LOAD_${e.name}_1(re, im, p) const ${e.value} re##_im = ${e.name}_load(p); \
    const ${e.real} re = re##_im.x, im = re##_im.y
% endif
</%def>

## Declare the parts of the element at p of input n.
<%def name="scalar(e, n, p)">LOAD_${e.name}_1(${", ".join(value_names(e, n))}, ${p});</%def>

## Declare w lanes, all of which have the element at p.
<%def name="broadcast(e, n, w, p)">\
% if w == 1:
${scalar(e, n, p)} \
% else:
${scalar(e, f"{n}_1", p)} \
% for part, single in zip(value_names(e, n), value_names(e, f"{n}_1")):
const ${vector(e.real, w)} ${part} = (${vector(e.real, w)})(${single}); \
% endfor
% endif
</%def>

## Declare w elements of every streamed input at index `at` of its row.
<%def name="along_row(r, w, at, unit)">\
% for e, n in zip(r.streamed, r.names):
% if n in spread:
${broadcast(e, n, w, f"{n}_row")}\
% else:
LOAD_${e.name}_${w}(${", ".join(value_names(e, n))}, ${n}_row + (${at})${"" if unit else f" * {n}_stride"}); \
% endif
% endfor
</%def>

## Declare w neighbouring columns of every streamed input: block c of row `at`.
<%def name="across_columns(r, w, at, c)">\
% for e, n in zip(r.streamed, r.names):
% if n in spread:
${broadcast(e, n, w, f"{n}_row + ({at}) * {n}_stride")}\
% else:
LOAD_${e.name}_${w}(${", ".join(value_names(e, n))}, ${n}_row + ((${at}) * ${n}_stride + ${c * w})); \
% endif
% endfor
</%def>

## Declare the vectors y{c}_: the values that the second input has for the w results of block c of columns, by parts.
<%def name="of_columns(r, c, w, p)">
<% e = r.inputs[1] %>
% for j in range(w):
    ${scalar(e, f"y{c}_{j}", f"{p} + (column + {c * w + j}) * y_column")}
% endfor
% for part in range(e.components):
    const ${vector(e.real, w)} ${value_names(e, f"y{c}_")[part]} =
        (${vector(e.real, w)})(${", ".join(value_names(e, f"y{c}_{j}")[part] for j in range(w))});
% endfor
</%def>

## The arguments of an update.  An input that is not streamed has one value for all lanes, or, with a `suffix`, the
## vector of a block of columns whose name ends with the suffix.
<%def name="values(r, w, suffix='')">\
<%
    parts = []
    for i, (e, n) in enumerate(zip(r.inputs, r.names)):
        streamed = i < len(r.streamed)
        names = value_names(e, n if streamed else n + suffix)
        wide = streamed or w == 1 or suffix
        parts += names if wide else [f"({vector(e.real, w)})({name})" for name in names]
%>\
${", ".join(parts)}\
</%def>
