## Loads and products of the kernels conv/sliding and conv/sliding_weight, in which a work-item goes down the rows.
##
##   ranges(...)   declare the positions of the elements of a row that the results read
##   load(...)     load these elements of one row: declare, fetch and take
##   weights(...)  copy the weights of the work-group's channels to local memory
##   add(...)      add the products of a step
##
## Loads are not in branches, so that all loads of a step are in flight at the same time.  In place of an element
## outside of the source the nearest one is loaded, and its value is replaced by 0.
##
## chunks: (j, count) for one load of `count` adjacent elements, j places after the first that the results read.  A
## chunk of several elements is inside of the source or outside, and then wide is 1.
## row_taps: the AxisTaps of V results along a row; rows: SlidingRows, with the AxisTaps along axis 1.  wide: channels
## of a vector.  I: the type of indices.
<%namespace name="element" file="/common/element.cl.mako"/>
<%! from portable_gpu.codegen.operators import component, vector %>

## For chunk k: NAME_inside{k}, whether it is inside of the row, and NAME_column{k}, the offset from which it is loaded.
<%def name="ranges(chunks, I, name='s', first='from')">\
% for k, (j, count) in enumerate(chunks):
    const bool ${name}_inside${k} = ${first} + ${j} >= 0 && ${first} + ${j} < ${name}2_size;
    const ${I} ${name}_column${k} = min(max(${first} + ${j}, (${I})0), ${name}2_size - ${count}) * ${name}_axis2;
% endfor
</%def>

## The elements of a row are loaded in two parts, between which a work-item can add the products of the row before:
##
##   declare   variables of what is stored
##   fetch     load them from row `i` (C text) of the plane
##   take      declare PREFIX0, PREFIX1, ...: the values, or 0 if the condition `has` is false
<%def name="declare(elem, chunks, wide, prefix)">\
% for j, count in chunks:
        ${elem.name}_${f"x{count * wide}" if count * wide > 1 else "t"} ${prefix}stored${j};
% endfor
</%def>

<%def name="fetch(elem, chunks, wide, I, prefix, i, name='s', plane='s')">\
            __global const ${elem.name}_t *const ${prefix}row =
                ${plane} + min(max(${i}, (${I})0), ${name}1_size - 1) * ${name}_axis1;
% for k, (j, count) in enumerate(chunks):
<% stored = f"{elem.name}_x{count * wide}" if count * wide > 1 else f"{elem.name}_t" %>\
            ${prefix}stored${j} = *(__global const ${stored} *)(${prefix}row + ${name}_column${k});
% endfor
</%def>

<%def name="take(elem, chunks, wide, prefix, has, name='s')">\
            const bool ${prefix}has = ${has};
% for k, (j, count) in enumerate(chunks):
<% value, taken = vector(elem.real, count * wide), f"{prefix}chunk{j}" if count > 1 else f"{prefix}{j}" %>\
            ${value} ${taken} = ${element.values(elem, count * wide, f"{prefix}stored{j}")};
            ${taken} = ${prefix}has && ${name}_inside${k} ? ${taken} : (${value})(0);
% for n in range(count if count > 1 else 0):
            const ${elem.real} ${prefix}${j + n} = ${taken}${component(count, n)};
% endfor
% endfor
</%def>

## Fetch the rows of a step (C text) that no earlier step has loaded: x{l}_ is row l of the step's window.  declares:
## whether to declare the variables of these rows.
<%def name="fetch_rows(elem, chunks, wide, I, loaded, fresh, step, declares=False)">\
% for l in loaded:
% if declares:
${declare(elem, chunks, wide, f"x{l}_")}\
% endif
${fetch(elem, chunks, wide, I, f"x{l}_", f"({step} * {fresh} + shift1 + {l})")}\
% endfor
</%def>

## Declare PREFIX0, PREFIX1, ...: the elements of row `i` of the plane, or 0 if the condition `has` is false.
<%def name="load(elem, chunks, wide, I, prefix, i, has, name='s', plane='s')">\
${declare(elem, chunks, wide, prefix)}\
${fetch(elem, chunks, wide, I, prefix, i, name, plane)}\
${take(elem, chunks, wide, prefix, has, name)}\
</%def>

## Fill the local memory weights[tap * pitch + channel]; a work-group has `pitch` channels, from first_channel on.
## T: taps of a filter.  lid: the local id.
<%def name="weights(elem, row_taps, T, pitch, I)">\
% for begin in range(0, pitch, G):
    if (lid + ${begin}u < ${pitch}u) {
        const uint channel = lid + ${begin}u;
        const ${I} o = min(first_channel + (${I})channel, channels - 1);
        __global const ${elem.name}_t *const filter = f + o / targets * f_group + o % targets * f_out;
% for tap in range(T):
        weights[${tap * pitch} + channel] =
            ${elem.name}_load(filter + ${tap // row_taps.taps} * f_axis1 + ${tap % row_taps.taps} * f_axis2);
% endfor
    }
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>

## Add the products of the loaded rows l of this step's window to results (row u, place v): sum{u}_{v} of this step, and
## open{a - 1}_{u}_{v}, incomplete ones of the step that is a steps later.  The window of that step begins a * fresh
## rows further down, so its row u needs row l for tap r if column_taps.reads[r][u] is l - a * fresh.  Along the row,
## result v needs element j for tap c.
## weight(tap): a C expression.
<%def name="add(rows, row_taps, loaded, weight)">\
% for l in loaded:
% for a in range(rows.ahead):
% for r, u in ((r, u) for r in range(rows.column_taps.taps) for u in range(rows.at_once)):
% if rows.column_taps.reads[r][u] == l - a * rows.fresh:
<% sums = f"open{a - 1}_{u}" if a else f"sum{u}" %>\
% for c, v, j in ((c, v, j) for c, places in enumerate(row_taps.reads) for v, j in enumerate(places) if j is not None):
        ${sums}_${v} += x${l}_${j} * ${weight(r * row_taps.taps + c)};
% endfor
% endif
% endfor
% endfor
% endfor
</%def>
