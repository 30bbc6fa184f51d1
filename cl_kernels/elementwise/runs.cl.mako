## runs: out[...] = f(inputs[...]) on a CPU, with NumPy's broadcasting.
##
##   row 0   | columns_each | columns_each | ...     a work-item has a part of a row,
##   row 1   |                                       or rows_each whole rows; it goes from one row to the next of the
##   ...     | V V V ... tail |                      last outer axis (up to row `after`) without divisions
##
## A part is vectors of V elements, of which the last one overlaps the one before it if V does not divide the part.  The
## rest of a part is copied to a vector where the part has fewer elements, and where inputs are the output itself, so
## that the old values of the overlap are lost.
## With V = 1 it is a loop that the compiler vectorises.
## Launch: groups of one; `parts` of them for each rows_each rows (one of the two is 1).
##
## inlined: the functions that f calls and that common/cpu_functions defines.  Other parameters: see _arrays.
<%namespace name="arrays" file="/elementwise/_arrays.cl.mako"/>
<%namespace name="functions" file="/common/cpu_functions.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% inner_rows = f"outer{outer - 1}_size" %>\
${functions.define(inlined, (1, V))}\
${arrays.define(False)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("elementwise")}
{
    const ${index} part = get_group_id(0) % parts, first_row = get_group_id(0) / parts * rows_each;
    const ${index} last_row = min(rows, first_row + rows_each);
    const ${index} begin = part * columns_each, end = min(columns, begin + columns_each);
    for (${index} row = first_row; row < last_row;) {
${arrays.rows_of()}\
        const ${index} after = ${f"min(last_row, row + {inner_rows} - row % {inner_rows})" if outer else "last_row"};
        for (; row < after; row++) {
            ${index} i = begin;
% if V == 1:
            for (; i < end; i++) {
                const ${f.result} v = ${f.name}(${arrays.arguments(1, "i")});
                ${arrays.store(1, "i", "v")}
            }
% elif updated:
${vectors()}\
% else:
            while (i < end && end - begin >= ${V}) {
                i = min(i, end - ${V});  // the last vector, in the second turn
${vectors()}\
            }
% endif
% if V > 1:
            if (i < end) {
${tail()}\
            }
% endif
% for n in [*inputs, "out"] if outer else []:
            ${n} += ${n}_outer${outer - 1};
% endfor
        }
    }
}

<%def name="vectors()">\
            for (; i + ${V} <= end; i += ${V}) {
                const ${vector(f.result, V)} v = ${f.called(V)}(${arrays.arguments(V, "i")});
                ${arrays.store(V, "i", "v")}
            }
</%def>

## The remaining elements of a part; its last element is read in the place of those after it.
<%def name="tail()">\
<%
    old = [("out", result)] * min(updated, 1)
    values = []
    for n, e in [*inputs.items(), *old]:
        text = f"*(const {vector(e.real, V)} *){n}_tail" if steps[n] else capture(arrays.load, n, e, V, "i")
        values += [text] * (updated if n == "out" else 1)
    values += [f"({ctype}{V})({text})" for ctype, text in numbers]
%>\
% for n, e in [(n, e) for n, e in [*inputs.items(), *old] if steps[n]]:
            ${e.real} ${n}_tail[${V}] __attribute__((aligned(sizeof(${vector(e.real, V)}))));
            for (int j = 0; j < ${V}; j++) ${n}_tail[j] = ${arrays.load(n, e, 1, "(i + j < end ? i + j : end - 1)")};
% endfor
            const ${vector(f.result, V)} v = ${f.called(V)}(${", ".join(values)});
            for (int j = 0; i < end; i++, j++) {
                const ${f.result} element = ((const ${f.result} *)&v)[j];
                ${arrays.store(1, "i", "element")}
            }
</%def>
