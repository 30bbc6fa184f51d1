## The main loop of gemm: panels of A and B, step by step along k, on their way to the register tiles.
##
##   buffers = 1   L S | X | L S | X | ...         L: global memory -> registers   load
##     prefetch    L S | L X | S | L X | ...       S: registers -> local memory    store_panels
##   buffers = 2   L S | L S X | L S X | ...       X: local memory -> products     registers.steps
##     prefetch    L S | L X S | L X S | ...       |: barrier
##   asynchronous  C C | C X | C X | ...           C: global memory -> local memory, buffers - 1 ahead
##
## Arguments as of gemm, which has a, b, start, tail and the number `tiles` of steps in scope.
<%!
from functools import partial
%>
<%namespace name="panel" file="/gemm/_panel.cl.mako"/>
<%namespace name="registers" file="/gemm/_register_tile.cl.mako"/>

<%def name="run()">
    __local const ${a.held} *a_from, *b_from;
% if policy.asynchronous:
    ${copied_ahead()}
% else:
    ${load("0")}
    ${one_buffer() if policy.buffers == 1 else two_buffers()}
% endif
</%def>

<%def name="one_buffer()">
    ${registers.point("0")}
    for (int step = 0; step < tiles; ++step) {
        ${store_panels("0")}
        barrier(CLK_LOCAL_MEM_FENCE);
        ${next_panels() if policy.prefetch else ""}
        ${registers.steps(tile, a.depth)}
        barrier(CLK_LOCAL_MEM_FENCE);
        ${"" if policy.prefetch else next_panels()}
    }
</%def>

<%def name="two_buffers()">
    ${store_panels("0")}
    barrier(CLK_LOCAL_MEM_FENCE);
    int buffer = 0;
    ${walk(next_of_two, turn)}
</%def>

<%def name="copied_ahead()">
<% buffers = policy.buffers %>
% for step in range(buffers - 1):
    if (${step} < tiles) {
        ${copy(str(step), str(step))}
    }
    COPIES_COMMIT();
% endfor
    COPIES_WAIT(${buffers - 2});
    barrier(CLK_LOCAL_MEM_FENCE);
    int buffer = 0, free_buffer = ${buffers - 1};
    ${walk(next_copies, turn_round)}
</%def>

## All steps: `bring_next` sends for panels, `to_next` brings those of the next step into reach.
<%def name="walk(bring_next, to_next)">
% if policy.prefetch_local:
    ${registers.declare(tile, "p")}
    ${registers.declare(tile, "q")}
    ${registers.point("0")}
    ${registers.fetch(tile, "p", 0)}
% endif
    for (int step = 0; step < tiles; ++step) {
        ${bring_next()}
% if policy.prefetch_local:
        ${registers.steps_ahead(tile, a.depth, capture(to_next))}
% else:
        ${registers.point("buffer")}
        ${registers.steps(tile, a.depth)}
        ${to_next()}
% endif
    }
</%def>

## The panels of a step from global memory to registers, and on to the next along k.
<%def name="load(step)">
    ${bring(step, panel.load, panel.load_tail)}
</%def>

## The same to a buffer in local memory.
<%def name="copy(step, buffer)">
    ${bring(step, partial(panel.copy, buffer=buffer), partial(panel.copy_tail, buffer=buffer))}
</%def>

<%def name="bring(step, whole, last_one)">
<% last = f"{step} == tiles - 1{' - start' if stagger else ''}" %>\
% if tail:
    if (${last} && tail < ${a.steps}) {
        ${last_one(a)}
        ${last_one(b)}
    } else {
        ${whole(a)}
        ${whole(b)}
    }
% else:
    ${whole(a)}
    ${whole(b)}
% endif
<% ahead = f"({last} ? {a.steps} - {a.steps}l * tiles : {a.steps}l)" if stagger else str(a.steps) %>\
    a += ${ahead} * a_col;
    b += ${ahead} * b_row;
</%def>

## Registers to local memory.
<%def name="store_panels(buffer)">
    ${panel.store(a, buffer)}
    ${panel.store(b, buffer)}
</%def>

## Both for the step after this one, if there is any; of two buffers the other takes the panels.
<%def name="next_panels()">
        if (step + 1 < tiles) {
            ${load("step + 1")}
        }
</%def>

<%def name="store_next()">
        if (step + 1 < tiles) {
            ${store_panels("(buffer ^ 1)")}
        }
</%def>

<%def name="next_of_two()">
        ${next_panels()}
        ${"" if policy.prefetch else store_next()}
</%def>

<%def name="next_copies()">
        if (step + ${policy.buffers - 1} < tiles) {
            ${copy(f"step + {policy.buffers - 1}", "free_buffer")}
        }
        COPIES_COMMIT();
        free_buffer = buffer;
</%def>

## To the panels of the next step.
<%def name="turn()">
        ${store_next() if policy.prefetch else ""}
        barrier(CLK_LOCAL_MEM_FENCE);
        buffer ^= 1;
        ${registers.point("buffer") if policy.prefetch_local else ""}
</%def>

<%def name="turn_round()">
        COPIES_WAIT(${policy.buffers - 2});
        barrier(CLK_LOCAL_MEM_FENCE);
        if (++buffer == ${policy.buffers}) buffer = 0;
        ${registers.point("buffer") if policy.prefetch_local else ""}
</%def>
