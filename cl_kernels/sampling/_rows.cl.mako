## Parts of runs: a block of outputs, the copy of one row of the source, and the search for the columns that a row
## reads.  Outputs are in columns begin to end - 1 of the row; across: the number of ruled axes among the rows; t<k>,
## p<k>, o<k>: tap, its place, and output on axis k; step: for each operand the text " * stride" of a column, or "";
## lanes, acc, found: see _loops.
<%namespace name="parts" file="/sampling/_parts.cl.mako"/>
<%namespace name="loops_of" file="/sampling/_loops.cl.mako"/>

## Declare read_begin and read_end: columns begin to end - 1 read places of the source from read_begin to read_end - 1.
<%def name="read_columns(across)">\
    int read_begin = INT_MAX, read_end = 0;
    for (int t = 0; t < ${taps[across] or f"most{across}"}; t++) {
        for (${index} b = begin; b < end; b++) {
            const int p = places${across}[t * size${across} + b];
            read_begin = p >= 0 ? min(read_begin, p) : read_begin, read_end = max(read_end, p + 1);
        }
    }
</%def>

## Store a part of a row whose elements are copies of elements of one row of the source, or the value of outputs that
## read nothing.
<%def name="copied(across, step)">\
<% put = lambda at, value: f"out[({at}){step['out']}] = {value};" %>\
        ${parts.pointer("x", "_row")} = 0;
${find_row(0, across)}\
% if plain_columns:
        if (x_row) {
            for (${index} b = begin; b < end; b++) ${put("b", f"x_row[b{step['x']}]")}
        } else {
            for (${index} b = begin; b < end; b++) ${filled("b", step)}
        }
% else:
        for (${index} b = begin, next; b < end; b = next) {
            next = end;
% if pitch is not None:
            next = min(end, b < regular_begin ? regular_begin : b < regular_end ? regular_end : end);
            if (x_row && b >= regular_begin && b < regular_end) {
                const int first = places${across}[b];
                for (int j = 0; j < next - b; j++) ${put("b + j", f"x_row[(first + {pitch} * j){step['x']}]")}
                continue;
            }
% endif
            for (; b < next; b++) {
                const int p = x_row ? places${across}[b] : -1;
                if (p >= 0) ${put("b", f"x_row[p{step['x']}]")}
                else ${filled("b", step)}
            }
        }
% endif
</%def>

## A statement: store the value of outputs that read nothing.
<%def name="filled(at, step)">\
${e.name}_store(out + (${at})${step["out"]}, ${parts.nothing()});\
</%def>

## Set x_row to the row of the source that the taps of the axes from k on name; there is at most one.
<%def name="find_row(k, across)">\
% if k == across:
        x_row = x${"".join(f" + p{axis} * x_step{axis}" for axis in range(across))};
% else:
        for (int t${k} = 0; t${k} < most${k}; t${k}++) {
            const int p${k} = places${k}[t${k} * size${k} + o${k}];
            if (p${k} < 0) break;
${find_row(k + 1, across)}\
        }
% endif
</%def>

## The outputs in columns b to b + n - 1 of a row, `lanes` at a time.
<%def name="block(across, step, lanes=1)">\
<%
    per, column, suffix = (f" / {lanes}", f"b + {lanes} * j", lanes) if lanes > 1 else ("", "b + j", "")
    length = f"n / {lanes}" if lanes > 1 else B
    loop_over = f"for (int j = 0; j < n{per}; j++)"
    loop_over = f'_Pragma("unroll") {loop_over}' if lanes > 1 else loop_over
%>\
            ${vector(e.value, lanes)} acc[${length}];
            ${loop_over} acc[j] = ${parts.nothing()};
% if kind == "argmax":
            ${vector(index, lanes)} found[${length}];
            ${loop_over} found[j] = -1;
% endif
% if blended:
${loops_of.columns(across, step)}\
% else:
% if kind == "sum":
            const ${e.real} u_0 = 1;
% endif
${loops_of.nest(0, across, step, lanes)}\
% endif
% if not plain_columns and gaps[across]:
            for (int j = 0; j < n; j++) acc[j] = places${across}[b + j] < 0 ? ${parts.nothing()} : acc[j];
% if kind == "argmax":
            for (int j = 0; j < n; j++) found[j] = places${across}[b + j] < 0 ? -1 : found[j];
% endif
% endif
            ${loop_over}
                ${e.name}_store${suffix}(out + (${column})${step["out"]}, ${parts.result("acc[j]")});
% if kind == "argmax":
% if lanes > 1:
            ${loop_over} vstore${lanes}(CONVERT(long${lanes}, found[j]), 0, indices + (${column}));
% else:
            for (int j = 0; j < n; j++) indices[(b + j)${step["indices"]}] = found[j];
% endif
% endif
</%def>
