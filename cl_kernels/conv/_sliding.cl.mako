## Loads and products of conv/sliding and conv/sliding_weight, whose work-items advance from row to row.
##
##   ranges(...)   declare the positions of the elements of a row that the results read
##   load(...)     load these elements of one row
##   weights(...)  copy the weights of a group's channels to local memory
##   add(...)      add the products of a step
##
## Loads are not in branches, so that all loads of a step are in flight at the same time.  For an element outside of the
## source another element is loaded, and its value is replaced by 0.
##
## chunks: (j, count) for `count` adjacent elements from position `from` + j on; each chunk is one load.
## strip: the Strip of V results along a row; rows: SlidingRows, with the Strip along axis 1.  wide: channels of a
## vector.
<%! from portable_gpu.codegen.operators import component, vector %>

## For chunk k: NAME_inside{k}, whether it is inside of the row, and NAME_column{k}, the offset from which it is loaded.
<%def name="ranges(chunks, I, name='s', first='from')">\
% for k, (j, count) in enumerate(chunks):
    const bool ${name}_inside${k} = ${first} + ${j} >= 0 && ${first} + ${j} < ${name}2_size;
    const ${I} ${name}_column${k} = min(max(${first} + ${j}, (${I})0), ${name}2_size - ${count}) * ${name}_axis2;
% endfor
</%def>

## Declare ${x}0, ${x}1, ...: the elements of row `i` (C text) of the plane, or 0 if the condition `has` is false.
<%def name="load(elem, chunks, wide, I, x, i, has, name='s', plane='s')">\
            __global const ${elem.name}_t *const ${x}row =
                ${plane} + min(max(${i}, (${I})0), ${name}1_size - 1) * ${name}_axis1;
% for k, (j, count) in enumerate(chunks):
<% width = count * wide; value = vector(elem.real, width) %>\
            ${value} ${f"{x}chunk{j}" if count > 1 else f"{x}{j}"} =
                ${elem.name}_load${width if width > 1 else ""}(${x}row + ${name}_column${k});
% endfor
            const bool ${x}has = ${has};
% for k, (j, count) in enumerate(chunks):
<% value, loaded = vector(elem.real, count * wide), f"{x}chunk{j}" if count > 1 else f"{x}{j}" %>\
            ${loaded} = ${x}has && ${name}_inside${k} ? ${loaded} : (${value})(0);
% for n in range(count if count > 1 else 0):
            const ${elem.real} ${x}${j + n} = ${loaded}${component(count, n)};
% endfor
% endfor
</%def>

## Fill the local memory weights[tap * pitch + channel]: the `pitch` channels of the work-group from first_channel on.
## T: taps of a filter.  lid: the local id.
<%def name="weights(elem, strip, T, pitch, I)">\
% for begin in range(0, pitch, G):
    if (lid + ${begin}u < ${pitch}u) {
        const uint channel = lid + ${begin}u;
        const ${I} o = min(first_channel + (${I})channel, channels - 1);
        __global const ${elem.name}_t *const filter = f + o / targets * f_group + o % targets * f_out;
% for tap in range(T):
        weights[${tap * pitch} + channel] =
            ${elem.name}_load(filter + ${tap // strip.taps} * f_axis1 + ${tap % strip.taps} * f_axis2);
% endfor
    }
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>

## Add the products of the loaded rows l to sum{u}_{v}, the results of this step (row u, result v), and to
## open{a}_{u}_{v}, those of the step a + 1 later.  Tap r of axis 1 adds row l to row u of the step a later if
## l = rows.strip.reads[r][u] + a * fresh; tap c of axis 2 adds element j to result v.  weight(tap): a C expression.
<%def name="add(rows, strip, loaded, weight)">\
% for l in loaded:
% for a in range(rows.ahead):
% for r, u in ((r, u) for r in range(rows.strip.taps) for u in range(rows.at_once)):
% if rows.strip.reads[r][u] == l - a * rows.fresh:
% for c, v, j in ((c, v, j) for c, places in enumerate(strip.reads) for v, j in enumerate(places) if j is not None):
        ${f"open{a - 1}_{u}" if a else f"sum{u}"}_${v} += x${l}_${j} * ${weight(r * strip.taps + c)};
% endfor
% endif
% endfor
% endfor
% endfor
</%def>
