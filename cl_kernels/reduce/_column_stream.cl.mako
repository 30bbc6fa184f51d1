## A part of columns: a work-item folds its columns of a part of the rows.  The rows are dealt to the CY row lanes of
## the group in turn; a step is U rows of each row lane.
##
## r: the Reduction.  V, C: elements of a vector, and vectors of a work-item.  In scope at the caller: y_lane, its row
## lane; column, the work-item's first column; begin, end, outer_begin, outer_end, n: see _part.
##
##   begin   row lane 0   | total0: V columns | total1 ... |     C vectors of a row
##           row lane 1
##           ...
##           row lane 0   | ...
##
## A row lane has at most U of the rows after the last whole step of U * CY rows; if U > 2, their loads are in flight
## together.  Each row is folded into a state; states are lifted to accumulators, which are combined (_states).
<%namespace name="states" file="/reduce/_states.cl.mako"/>
<%namespace name="loads" file="/reduce/_loads.cl.mako"/>
<%namespace name="part" file="/reduce/_part.cl.mako"/>

## Fold the part into the accumulators <total>0, <total>1 ..., one for each vector.
<%def name="fold(r, total)">
    for (long o = outer_begin; o < outer_end; ++o) {
% for elem, name in zip(r.streamed, r.names):
        ${part.inner_row(elem, name, "column")}
% endfor
${steps(r, total, U)}
% if U > 2:
${rest(r, total)}
% elif U == 2:
${steps(r, total, 1)}
% endif
    }
</%def>

## Fold the rows after the last whole step.
<%def name="rest(r, total)">
        {
            const long first = begin + (end - begin) / ${CY * U} * ${CY * U} + y_lane;
${states_of(r, U)}\
% for k in range(U):
            if (first + ${k * CY} < end) {
${update(r, f"first + {k * CY}", k, 0)}\
            }
% endfor
% for c in range(C):
${lift(r, total, c, U)}\
% endfor
        }
</%def>

## Fold rows of the part, u at a time for each of the CY row lanes: with u == U all whole steps, with 1 the rows after
## them.  A state folds at most r.block elements before it is lifted.
<%def name="steps(r, total, u)">
<%
step = CY * u
start = "begin" if u == U else f"begin + (end - begin) / {CY * U} * {CY * U}"
number = f"(end - from) / {step}" if u > 1 else f"(end - first + {step - 1}) / {step}"
max_steps = r.block or 1 << 30  # between two lifts; the block 0 has no limit
%>
        {
            const long from = ${start}, first = from + y_lane;
            const long steps = ${number};
            for (long done = 0; done < steps;) {
                const long stop = min(steps, done + ${max_steps}L);
${states_of(r, u)}\
                for (; done < stop; ++done) {
% for k in range(u):
${update(r, f"first + done * {step}L + {k * CY}", k, "done")}\
% endfor
                }
% for c in range(C):
${lift(r, total, c, u)}\
% endfor
            }
        }
</%def>

## Declare the states of u rows: a<k * C + c> of vector c of row k.
<%def name="states_of(r, u)">\
<% state = r.lane.type(V) %>\
% for k in range(u * C):
                ${state} a${k} = ${state}_identity();
% endfor
</%def>

## Fold row `at` of the part into the states of row k of a step.  step: how many rows these states have folded.
<%def name="update(r, at, k, step)">\
<% state = r.lane.type(V) %>\
% for c in range(C):
                    { ${loads.across_columns(r, V, at, c)} a${k * C + c} = ${state}_update(a${k * C + c},
                        ${loads.values(r, V, f"{c}_")}, ${step}); }
% endfor
</%def>

## Lift the states of vector c, a<k * C + c> for row k of u, and fold them into its total.
<%def name="lift(r, total, c, u)">\
<%
    acc, state = r.acc.type(V), r.lane.type(V)
    states_of_vector = [f"a{k * C + c}" for k in range(u)]
%>\
% if r.block:
                ${states.join_states(r, V, states_of_vector)}
                ${total}${c} = ${acc}_combine(${total}${c}, ${state}_lift(${states_of_vector[0]}, 0, 0));
% else:
% for k, a in enumerate(states_of_vector):
                ${total}${c} = ${acc}_combine(${total}${c}, ${state}_lift(${a}, o * n + first + ${k * CY}, ${CY * u}));
% endfor
% endif
</%def>
