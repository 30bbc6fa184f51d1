## The fold of the rows of a part into the vectors of a block, for cpu_columns.
##
##   total[j]   V columns: rows i to i + U - 1 are folded to one state for each column, which is lifted (converted) to
##              an accumulator and folded into total[j]
##
## A row updates a state (TYPE_update); TYPE_gather folds a lifted state into an accumulator: see _states.
## Rows are prefetched U rows ahead.  A block narrower than a vector begins `before` columns early; the last vector of
## any other block ends at the block's edge.  In scope there: column: the block's first column; block_columns,
## block_vectors: its columns and vectors; begin, end, outer_begin, outer_end, n: the part's rows (_part).
<%namespace name="loads" file="/reduce/_loads.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>
<%!
    from portable_gpu.codegen.reductions import value_names

    def centres(r):
        """The names of the parts of the second input if it has one element for each result, else none."""
        return value_names(r.inputs[1], "y") if r.per_row else []
%>

## An expression for the first column of vector j in the block.
<%def name="place()">(before || (j + 1) * ${V} <= block_columns ? j * ${V} : block_columns - ${V})</%def>

## Define the type of vectors of the second input.
<%def name="define_centres()">
<% e = r.inputs[1] %>\
typedef ${vector(e.real, V)} centre_u __attribute__((aligned(${e.itemsize // e.components})));
</%def>

## Load the block's values of the second input to arrays.
<%def name="load_centres()">\
% for name in centres(r):
    ${r.inputs[1].real} ${name}[${COLUMNS + V}];
% endfor
    for (int j = 0; j < before + block_columns; j++) {
<% c_place = part.module.place(result_axes, "y") %>\
        ${loads.scalar(r.inputs[1], "c", f"y_data + {c_place} + (column - before + j) * y_column")}
% for name, value in zip(centres(r), value_names(r.inputs[1], "c")):
        ${name}[j] = ${value};
% endfor
    }
</%def>

## Fold the part into `total`[0], [1] ...
<%def name="fold(r, total)">\
    for (long o = outer_begin; o < outer_end; ++o) {
% for e, n in zip(r.streamed, r.names):
        ${part.inner_row(e, n, "(column - before)")}
% endfor
        for (long i = begin; i < end;) {
## Accumulators that have `gather` are accurate for 1024 folds in succession; then `combine` makes them so for 1024
## more.
% if r.acc.gather:
            const long stop = end - i < ${1024 * U} ? end : i + ${1024 * U};
% else:
            const long stop = end;
% endif
            for (; i + ${U} <= stop; i += ${U}) {
${steps(r, total, U)}\
            }
            for (; i < stop; i++) {
${steps(r, total, 1)}\
            }
% if r.acc.gather:
            if (i < end || o + 1 < outer_end)
                for (int j = 0; j < block_vectors; j++)
                    ${total}[j] = ${r.acc.type(V)}_combine(${total}[j], ${r.acc.type(V)}_identity());
% endif
        }
    }
</%def>

## Fold u rows from row i on into the accumulators, and prefetch the u rows after them.  at: the first column of vector
## j.
<%def name="steps(r, total, u)">\
<%
    acc, state = r.acc.type(V), r.lane.type(V)
    streamed = list(zip(r.streamed, r.names))
    values = [part for e, n in streamed for part in value_names(e, n)] + [f"{name}_v" for name in centres(r)]
%>\
            for (int j = 0; j < block_vectors; j++) {
                const int at = ${place()};
                ${state} a = ${state}_identity();
% for k in range(u):
% for e, n in streamed:
% if n not in spread:
                PREFETCH_FAR(${n}_row + ((i + ${k + u}) * ${n}_stride + at));
% endif
% endfor
                {
% for e, n in streamed:
% if n in spread:
                    ${loads.broadcast(e, n, V, f"{n}_row + (i + {k}) * {n}_stride")}
% else:
                    LOAD_${e.name}_${V}(${", ".join(value_names(e, n))}, ${n}_row + ((i + ${k}) * ${n}_stride + at));
% endif
% endfor
% for name in centres(r):
                    const ${vector(r.inputs[1].real, V)} ${name}_v = *(const centre_u *)(${name} + at);
% endfor
                    a = ${state}_update(a, ${", ".join(values)}, ${k});
                }
% endfor
                ${total}[j] = ${acc}_gather(${total}[j], ${state}_lift(a, o * n + i, 1));
            }
</%def>
