## The share of a work-item of a row: the E vectors that it keeps, or those that it reads in turn.  See rows.
<%namespace name="fold" file="/normalize/_fold.cl.mako"/>

## Fold the share of this work-item, and its vectors of accumulators, to `total`.
<%def name="folded(phase, acc)">\
<% wide, each = acc if V == 1 else f"{acc}{V}", L * V %>\
    ${wide} s = ${wide}_identity();
% for e in range(E):
    if (j${e} < end) {
${fold.step(phase, [e], V, 1)}\
    }
% endfor
% if not E:
    uint j = first + lane * ${V}u;
    for (; j + ${(U - 1) * each}u < end; j += ${U * each}u) {
% for u in range(U):
${fold.loaded(p.early, u, f"j + {u * each}u", V)}\
% endfor
${fold.step(phase, range(U), V, 1)}\
    }
    for (; j < end; j += ${each}u) {
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
<% each = L * V %>\
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
    for (uint j = first + lane * ${V}u; j < end; j += ${each}u) {
${fold.loaded(p.inputs, 0, "j", V)}\
${fold.map(0, "j", V, 1)}\
    }
% endif
</%def>
