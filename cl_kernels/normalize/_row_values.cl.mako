## What a row has once: inputs and results with a value for each row, or for each of neighbouring rows.  See _program.
<%namespace name="program" file="/normalize/_program.cl.mako"/>

## The declarations of values of the row: inputs, and elements that the index names.
<%def name="row_values(width)">\
<% row_t = vector(real, width) %>\
% for name in p.row_inputs:
    const ${row_t} ${name} = ${row_load(name, width)};
% endfor
% for name in p.updated:
    const ${row_t} old_${name} = ${row_load(name, width)};
% endfor
% for name in p.picks:
    const ${row_t} at_${name} = is_element ? ${elems[name].name}_load(${name}_row + index * ${name}_stride) : 0;
% endfor
    ${program.module.typed(p.before, real, width, width)}
</%def>

## A value for each row; of V neighbouring rows, a vector.
<%def name="row_load(name, width)">\
<% e, step = elems[name].name, f"{name}_kept{kept - 1}" %>\
% if width == 1:
${e}_load(${name}_row)\
% else:
(${vector(real, width)})(${", ".join(f"{e}_load({name}_row + {k} * {step})" for k in range(width))})\
% endif
</%def>

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
