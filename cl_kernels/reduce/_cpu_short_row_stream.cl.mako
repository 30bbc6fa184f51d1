## A part of cpu_short_rows: the reduction of V rows of n elements at a time.  NAME_place0 ... are the offsets of their
## first elements in input NAME; lane k of a vector has row k.
##
##   columns at .. at + V - 1   V vectors, one of each row, are loaded and transposed: column at + j updates state
##   the next V columns         j % CHAINS; as many elements behind the V rows are prefetched
##   ...
##   remaining columns          one by one
##
## r: Reduction, whose functions TYPE_update, _lift, _gather and _combine are those of _states.  V, outer: as in
## cpu_short_rows.
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="square" file="/reduce/_transposed.cl.mako"/>
<%!
    from portable_gpu.codegen.operators import SCALAR_BYTES
    from portable_gpu.codegen.reductions import value_names

    CHAINS = 2  # independent states, which are updated in turn so that additions do not wait for each other
    LINE = 64  # bytes of a prefetch

    def centres(r):
        """The names of the parts of the second input if it has one element for each result, else none."""
        return list(value_names(r.inputs[1], "y")) if r.per_row else []

    def values_of(r):
        """The names of the parts of all inputs."""
        return [part for e, n in zip(r.streamed, r.names) for part in value_names(e, n)] + centres(r)
%>

## Fold the rows into `total`.
<%def name="fold(r, total)">\
<%
    acc, state = r.acc.type(V), r.lane.type(V)
    into = "gathered" if r.block else total
    squares = max(1, r.block * CHAINS // V)  # squares of V x V elements that are added between two lifts
%>\
        for (long o = 0; o < outer_count; ++o) {
% for e, n in zip(r.streamed, r.names):
            __global const ${e.name}_t *${n}_all = ${n}_data
                + (${axes.offset("outer", n, axes.digits("outer", outer, "o"))});
% endfor
% if r.block:
            ${acc} gathered = ${acc}_identity();
% endif
            long at = 0;
            while (at + ${V} <= n) {
                const long stop = ${f"min(n - {V - 1}, at + {squares * V})" if r.block else f"n - {V - 1}"};
% for k in range(CHAINS):
                ${state} a${k} = ${state}_identity();
% endfor
                for (; at < stop; at += ${V}) {
${columns_of_square(r, state)}\
                }
% if r.block:
                ${states.join_states(r, V, [f"a{k}" for k in range(CHAINS)])}
                ${add_state(r, into, "a0")}
% else:
% for k in range(CHAINS):
                ${add_state(r, into, f"a{k}")}
% endfor
% endif
            }
            while (at < n) {
                const long stop = ${f"min(n, at + {r.block})" if r.block else "n"};
                ${state} a = ${state}_identity();
                for (; at < stop; ++at) {
% for e, n in zip(r.streamed, r.names):
                    ${load_elements(e, n, f"{n}_all", " + at")}
% endfor
                    a = ${state}_update(a, ${", ".join(values_of(r))}, at);
                }
                ${add_state(r, into, "a")}
            }
% if r.block:
            ${total} = ${acc}_combine(${total}, gathered);
% endif
        }
</%def>

## Fold a state, converted to an accumulator, into the accumulator `into`.
<%def name="add_state(r, into, state)">\
<% acc = r.acc.type(V) %>\
${into} = ${acc}_${"gather" if r.block else "combine"}(${into}, ${r.lane.type(V)}_lift(${state}, o * n, 1));\
</%def>

## Load the vectors of all rows at column `at`, and fold their columns in turn.
<%def name="columns_of_square(r, state)">\
<% columns = {} %>\
% for e, n in zip(r.streamed, r.names):
% for ahead in range(0, V * V, LINE // e.itemsize):
                    PREFETCH(${n}_all + ${n}_place0 + (${V} * (n + at) + ${ahead}));
% endfor
% for k in range(V):
                    LOAD_${e.name}_${V}(${", ".join(f"{part}_{k}" for part in value_names(e, n))},
                        ${n}_all + ${n}_place${k} + at);
% endfor
% for part in value_names(e, n):
<% lines, columns[part] = square.module.transposed(e.real, part, V, min(V, 16 // SCALAR_BYTES[e.real])) %>\
                    ${lines}
% endfor
% endfor
% for j in range(V):
<% values = [columns[part][j] for e, n in zip(r.streamed, r.names) for part in value_names(e, n)] %>\
                    a${j % CHAINS} = ${state}_update(a${j % CHAINS}, ${", ".join(values + centres(r))}, at + ${j});
% endfor
</%def>

## Declare vectors of one element of each of the V rows, by parts.  plus: C text of the element's offset in the row.
<%def name="load_elements(e, n, array, plus)">\
% for k in range(V):
LOAD_${e.name}_1(${", ".join(f"{part}_{k}" for part in value_names(e, n))}, ${array} + ${n}_place${k}${plus}); \
% endfor
% for part in value_names(e, n):
const ${vector(e.real, V)} ${part} = (${vector(e.real, V)})(${", ".join(f"{part}_{k}" for k in range(V))}); \
% endfor
</%def>
