## A part of rows: a work-item's share of a row: the E vectors that it keeps in registers, at elements j0, j1 ... of the
## row, or, if E is 0, those that it reads in turn, L * V elements apart.  In scope there: first, end: the elements of
## the group's part; lane, of L; number: of the row, which exists if it is below `rows`.  V, U, L: see rows.
<%namespace name="fold" file="/normalize/_fold.cl.mako"/>
<%namespace name="program" file="/normalize/_program.cl.mako"/>

## Load the kept vectors of some inputs.
<%def name="load(names)">\
% for e in range(E if names else 0):
% for name in names:
    ${vector(real, V)} ${name}${e} = 0;
% endfor
    if (j${e} < end) {
    ${program.place(f"j{e}")}\
% for name in names:
        ${name}${e} = ${program.load(name, V)};
% endfor
    }
% endfor
</%def>

## Before the first row: clear the sums over rows, and load the inputs that are the same for all of them.
<%def name="begin_sums()">\
% for name, e in ((name, e) for name in p.sums for e in range(E)):
    ${vector(real, V)} sum_${name}${e} = 0;
% endfor
% for name in steady:
    __global const ${elems[name].name}_t *${name}_row = ${name}_data + ${name}_offset;
% endfor
${load(steady)}\
</%def>

## After the last row: store the sums.
<%def name="store_sums()">\
% for name in p.sums:
    __global ${elems[name].name}_t *${name}_row = ${name}_data + (${name}_offset + slot * (ulong)count);
% for e in range(E):
    if (j${e} < end) {
    ${program.place(f"j{e}")}\
    ${program.store(name, V, f"sum_{name}{e}")}
    }
% endfor
% endfor
</%def>

## Fold the share of this work-item, and its vectors of accumulators, to `total`.
<%def name="folded(phase, acc)">\
<% wide, stride = acc if V == 1 else f"{acc}{V}", L * V %>\
    ${wide} s = ${wide}_identity();
% for e in range(E):
    if (j${e} < end) {
${fold.step(phase, [e], V, 1)}\
    }
% endfor
% if not E:
    uint j = first + lane * ${V}u;
    for (; j + ${(U - 1) * stride}u < end; j += ${U * stride}u) {
% for u in range(U):
${fold.loaded(p.early, u, f"j + {u * stride}u", V)}\
% endfor
${fold.step(phase, range(U), V, 1)}\
    }
    for (; j < end; j += ${stride}u) {
${fold.loaded(p.early, 0, "j", V)}\
${fold.step(phase, [0], V, 1)}\
    }
% endif
<%
    text, width = "s", V
    while width > 1:
        text, width = f"{acc}{width}_halve({text})", width // 2
%>\
    total = ${text};
</%def>

## Store the results of the share.
<%def name="mapped()">\

% for e in range(E):
    if (j${e} < end && number < rows) {
% if p.late:
${fold.loaded(p.late, e, f"j{e}", V)}\
% endif
${fold.map(e, f"j{e}", V, 1)}\
    }
% endfor
% if not E:
    if (number < rows)
    for (uint j = first + lane * ${V}u; j < end; j += ${L * V}u) {
${fold.loaded(p.inputs, 0, "j", V)}\
${fold.map(0, "j", V, 1)}\
    }
% endif
</%def>
