## A part of cpu_rows: the loops of a work-item over a row, or over neighbouring rows: whole vectors, then single
## elements.
##
## width: elements of a vector.  row_width: how many neighbouring rows a vector has elements of; 1 if its elements are
## adjacent in one row.  U: vectors of a step.  across: see _program.  A row consists of pieces of n adjacent elements,
## of which o is the index; the work-item has the row's elements first to end - 1.
<%namespace name="fold" file="/normalize/_fold.cl.mako"/>

## Fold the elements of the part of the row to `total`.  name: the type of the phase's accumulator.
<%def name="folded(phase, name, width, row_width)">\
<% wide = name if width == 1 else f"{name}{width}" %>\
    ${wide} vectors = ${wide}_identity();
% if width > row_width:
    ${name} single = ${name}_identity();
% endif
${over_row(phase, width, row_width, wide, name)}\
<%
    text, lanes = "vectors", width
    while lanes > row_width:
        text, lanes = f"{name}{lanes}_halve({text})", lanes // 2
%>\
% if width > row_width:
    total = ${name}_combine(${text}, single);
% else:
    total = ${text};
% endif
</%def>

## Fold the elements of the part (to `vectors` and `single`), or map them if `phase` is None.  wide, name: the types of
## these accumulators.  The loop over o goes along the outer axes of the row, whose inner axis has n elements.  In it
## there is an inner loop for each of `runs`: over U vectors at a time, then single vectors, then single elements.
<%def name="over_row(phase, width, row_width, wide='', name='')">\
<%
    step = 1 if row_width > 1 else width  # elements of a row in a vector
    # Loops, from many elements to one: the vectors of a step, by number (tag), and their width.
    runs = [(range(U), width)] * (phase is not None and U > 1) + [([0], width)] + [([0], 1)] * (step > 1)
    overlaps = phase is None and step > 1 and not p.sums and not p.index
%>\
    for (uint o = first / n; o * n < end; ++o) {
        uint at = max(first, o * n) - o * n;
        const uint last_at = min(end - o * n, n);
% for tags, run_width in runs:
<%
    total, type = ("vectors", wide) if run_width == width else ("single", name)
    advance = len(tags) * (step if run_width == width else 1)  # elements of the row
%>\
% if phase is not None:
        {
        ${type} s = ${total};
% endif
% if overlaps and run_width == width:
        for (const uint begin_at = at; at < last_at && begin_at + ${width}u <= last_at; at += ${width}u) {
            at = min(at, last_at - ${width}u);  // the last vector overlaps the one before it
% else:
        for (; at + ${advance}u <= last_at; at += ${advance}u) {
% endif
% for u in tags:
${fold.loaded(p.inputs, u, f"at + {u * step}u", run_width)}\
% endfor
% if phase is None:
${fold.map(0, "at", run_width, row_width, across)}\
% else:
${fold.step(phase, tags, run_width, row_width)}\
% endif
        }
% if phase is not None:
        ${total} = s;
        }
% endif
% endfor
    }
</%def>
