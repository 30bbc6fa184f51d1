## Parts of rows and cpu_rows: inputs and results that have one value for each row; with width > 1 vectors of those of
## `width` neighbouring rows, which are k * NAME_kept<last> apart in operand NAME.  NAME_row: the first row's address.
<%namespace name="program" file="/normalize/_program.cl.mako"/>

## Declare the values of the row: inputs NAME, old_NAME of results that are updated, and at_NAME, elements that the
## row's index selects.  counts: 1 where the index names an element and is not `ignore`, else 0.
<%def name="row_values(width)">\
<% row_t = vector(real, width) %>\
% for name in p.row_inputs:
    const ${row_t} ${name} = ${row_load(name, width)};
% endfor
% for name in p.updated:
    const ${row_t} old_${name} = ${row_load(name, width)};
% endfor
% if p.index:
% for k in range(width):
    const long index${k} = ${elems[p.index].name}_load(${p.index}_row + ${k} * ${p.index}_kept${kept - 1});
    const bool is_element${k} = index${k} >= 0 && index${k} < count;
% endfor
    const ${row_t} counts = ${lane_values([f"is_element{k} && index{k} != ignore" for k in range(width)])};
    (void)counts;
% endif
% for name in p.picks:
    const ${row_t} at_${name} = ${lane_values([capture(picked, name, k) for k in range(width)])};
    (void)at_${name};
% endfor
    ${program.module.typed(p.before, real, width, width)}
</%def>

## An expression: the vector of some components, or the only one.
<%def name="lane_values(texts)">\
${texts[0] if len(texts) == 1 else f"({vector(real, len(texts))})({', '.join(texts)})"}\
</%def>

## An expression: the element that the index of row k selects; 0 if there is no such element.
<%def name="picked(name, k)">\
<% at = f"{name}_row + ({k} * {name}_kept{kept - 1} + index{k} * {name}_stride)" %>\
is_element${k} ? ${elems[name].name}_load(${at}) : 0\
</%def>

## An expression: the value of a row, or the vector of the values of `width` neighbouring rows.
<%def name="row_load(name, width)">\
<% e, step = elems[name].name, f"{name}_kept{kept - 1}" %>\
% if width == 1:
${e}_load(${name}_row)\
% else:
(${vector(real, width)})(${", ".join(f"{e}_load({name}_row + {k} * {step})" for k in range(width))})\
% endif
</%def>

## Store the results that have one value for each row.
<%def name="row_stores(width)">\
% for name, text in p.row_outputs:
<% e, step = elems[name].name, f"{name}_kept{kept - 1}" %>\
    { const ${vector(real, width)} value = ${program.module.typed(text, real, width, width)};
% for k in range(width):
        ${e}_store(${name}_row${f" + {k} * {step}" if k else ""}, value${component(width, k)});
% endfor
    }
% endfor
</%def>
