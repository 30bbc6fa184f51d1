## Parts of direct, sliding, sliding_weight and weight: the products of a row of taps for V adjacent results, which are
## added to the results or to the gradient of the weights, and the store of the results.
##
## On a CPU the V results are the components of a vector, unless there are vectors of `wide` adjacent channels.
## row_taps: ops.conv.axis_taps.AxisTaps.  The elements of the source are x0, x1, ... from position `from` on; result v
## adds, for tap r, the element j = row_taps.reads[r][v], or nothing if that is None.  rows: RowReads (_row_reads).
## In scope at the caller: p, the row of s (axes 0 and 1) that the taps read; from; q, the first of the V results;
## s{c}_size, s_axis2, t_axis2 ...: extents and strides (_axes); t: the line of results.
<%namespace name="reads" file="/conv/_row_reads.cl.mako"/>
<%!
from portable_gpu.codegen.operators import component, vector

def strided_vector(E, at, step, count):
    """C expression of a vector of `count` elements of the Element named E from address `at` on, `step` apart."""
    return f"(sum_t)({', '.join(f'{E}_load({at} + {j} * {step})' for j in range(count))})"

def weight(at, E, wide):
    """C expression of the weight of a tap, of one channel or of adjacent ones."""
    return strided_vector(E, at, "f_group", wide) if wide > 1 else f"{E}_load({at})"

def strided_vector_inside(E, at, step, count, axis):
    """C expression: as strided_vector, from position q of an axis on; elements beyond its end are 0."""
    return f"(sum_t)({', '.join(f'q + {j} < t{axis}_size ? {E}_load({at} + {j} * {step}) : 0' for j in range(count))})"
%>

## Declare the elements of the source that are read, x0, x1, ...; `p` is the row.  Those outside of the row are 0.
<%def name="load(elem, row_taps, wide, I)">\
<% load, value = f"{elem.name}_load{wide if wide > 1 else ''}", vector(elem.real, wide) %>\
% for j in row_taps.loads:
            const ${value} x${j} = from + ${j} >= 0 && from + ${j} < s2_size
                ? ${load}(p + (from + ${j}) * s_axis2) : (${value})(0);
% endfor
</%def>

## Add the products of all taps to sum0, ... (sum on a CPU).  weights: C expressions, by tap.
<%def name="add_to_results(elem, row_taps, V, wide, rows, I, weights)">\
% if rows:
% for r, places in enumerate(row_taps.reads):
        sum${reads.lanes(places)} += ${reads.read(rows, places)} * ${weights[r]};
% endfor
% else:
        {
${load(elem, row_taps, wide, I)}\
% for r, places in enumerate(row_taps.reads):
% if target.is_cpu and wide == 1:
            sum += ${values(places, V)} * ${weights[r]};
% else:
            const sum_t weight${r} = ${weights[r]};
% for v, j in enumerate(places):
% if j is not None:
            sum${v} += x${j} * weight${r};
% endif
% endfor
% endif
% endfor
        }
% endif
</%def>

## Prefetch V results of the next row, and the elements of s that no results before them read, up to the row `below`.
<%def name="fetch_ahead(elem, row_taps, V, I)">\
        for (${I} row = max(below - step1 + 1, 0L); row <= below; row++) {
% for j in [j for j in row_taps.loads if j > row_taps.loads[-1] - max(1, V * row_taps.step // row_taps.divisor)]:
            PREFETCH(s + row * s_axis1 + (from + ${j}) * s_axis2);
% endfor
        }
% for v in range(V):
        PREFETCH(t + t_axis1 + (q + ${v}) * t_axis2);
% endfor
</%def>

## Elements of the source as a vector: one for each of V results.
<%def name="values(places, V)">\
<% components = ", ".join("0" if j is None else f"x{j}" for j in places) %>\
${components if V == 1 and places[0] is not None else f"(sum_t)({components})"}\
</%def>

## Store V results from q on that are before `end`.  t_unit: whether they are adjacent in memory.
<%def name="store(elem, V, wide, t_unit, I, sums)">\
<% E, store = elem.name, f"{elem.name}_store{wide if wide > 1 else ''}" %>\
% if V == 1:
        ${store}(t + q * t_axis2, ${sums[0]});
% elif wide > 1 or not target.is_cpu:
% for v, sum in enumerate(sums):
        if (q + ${v} < end) ${store}(t + (q + ${v}) * t_axis2, ${sum});
% endfor
% else:
% if t_unit:
        if (q + ${V} <= end) {
            ${E}_store${V}(t + q, sum);
            continue;
        }
% endif
% for v in range(V):
        if (q + ${v} < end) ${E}_store(t + (q + ${v}) * t_axis2, sum${component(V, v)});
% endfor
% endif
</%def>

## Add to the sum of each tap the products of V places (y0, y1, ...; a vector y0 on a CPU) and the elements it reads.
<%def name="add_to_weights(elem, row_taps, V, wide, rows, I, sums)">\
% if rows:
% for r, (sum, places) in enumerate(zip(sums, row_taps.reads)):
        ${sum} += ${reads.read(rows, places)} * y0;
% endfor
% else:
        {
${load(elem, row_taps, wide, I)}\
% for r, sum in enumerate(sums):
% if target.is_cpu:
            ${sum} += ${values(row_taps.reads[r], V)} * y0;
% else:
% for v, j in enumerate(row_taps.reads[r]):
            ${sum} += x${j} * y${v};
% endfor
% endif
% endfor
        }
% endif
</%def>
