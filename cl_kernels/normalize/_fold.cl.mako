## Parts of rows and cpu_rows: loads, folds and maps of the vectors of a row (see _program).  The vectors of input x are
## x0, x1 ...; the number of one is its `tag`.  It has `width` elements, of one row (row_width is 1), or, if `across`,
## one element of each of row_width = width neighbouring rows.  p: the RowProgram, whose texts are C text with the names
## of operands.  s: the accumulator of the phase.
<%namespace name="program" file="/normalize/_program.cl.mako"/>

## Declare vector `tag` of each input, at element j of the row.
<%def name="loaded(names, tag, j, width)">\
% for name in names:
    ${vector(real, width)} ${name}${tag};
% endfor
    {
    ${program.place(j)}\
% for name in names:
        ${name}${tag} = ${program.load(name, width)};
% endfor
    }
</%def>

## Fold the vectors with some tags into the accumulator s, by the program's text for this phase.
<%def name="step(phase, tags, width, row_width)">\
<% values = [{n: f"{n}{tag}" for n in p.inputs} for tag in tags] %>\
    ${program.module.typed(phase.step(values), real, width, row_width)}
</%def>

## Store the results of vector `tag`, at element j.
<%def name="map(tag, j, width, row_width, across=False)">\
    {
    ${program.place(j)}\
% if p.index and p.outputs:
    ${picked(j, width, across)}\
% endif
% for name, text in p.outputs:
<% value = program.module.typed(text.format(**{n: f"{n}{tag}" for n in p.inputs}), real, width, row_width) %>\
% if name in p.sums and not target.is_cpu:
    sum_${name}${tag} += ${value};
% elif name in p.sums:
    // Sums over rows: the work-item's first row starts them, and the others add to them.
    { const ${vector(real, width)} sum = row == begin ? 0 : ${program.load(name, width)};
    ${program.store(name, width, f"sum + {value}")} }
% else:
    ${program.store(name, width, value)}
% endif
% endfor
    }
</%def>

## Define IS_INDEX(a, b), a macro of the program's texts: a for the element that the row's index selects, else b.  The
## elements are j, or a vector from j on.  index<k>: the index of row k of a vector across rows; else index0.
<%def name="picked(j, width, across)">\
<% mask = vector("long" if real == "double" else "int", width) %>\
% if width == 1:
    const bool is_index = (long)(${j}) == index0;
#undef IS_INDEX
#define IS_INDEX(a, b) (is_index ? (a) : (b))
% elif across:
    const ${mask} is_index = (${mask})(${", ".join(f"-((long)({j}) == index{k})" for k in range(width))});
#undef IS_INDEX
#define IS_INDEX(a, b) select((${vector(real, width)})(b), (${vector(real, width)})(a), is_index)
% else:
    const ${mask} is_index = (${mask})(${", ".join(f"-((long)({j}) + {k} == index0)" for k in range(width))});
#undef IS_INDEX
#define IS_INDEX(a, b) select((${vector(real, width)})(b), (${vector(real, width)})(a), is_index)
% endif
</%def>
