## The main loop of gemm: it moves panels of A and B, step by step along k, to the register tiles.  Each row shows the
## order of the operations for one policy:
##
##   buffers = 1   L S | X | L S | X | ...         L: global memory -> registers   load
##     prefetch    L S | L X | S | L X | ...       S: registers -> local memory    store_panels
##   buffers = 2   L S | L S X | L S X | ...       X: local memory -> products     registers.steps
##     prefetch    L S | L X S | L X S | ...       |: barrier
##
## A fragment is what a work-item reads of a panel for one step of k (_register_tile).  With prefetch_local, which takes
## two buffers, the fragments of a step are loaded to the registers p and q in turn, while those of the step before are
## multiplied.
##
## policy, a, b, tile, tail, stagger: as in gemm.  In scope: the pointers a and b; tail; k_steps, the number of steps
## along k; start, with `stagger` the step at which the group begins.
<%namespace name="panel" file="/gemm/_panel.cl.mako"/>
<%namespace name="registers" file="/gemm/_register_tile.cl.mako"/>

<%def name="run()">
    __local const ${a.local_type} *a_from, *b_from;
    ${load("0")}
    ${one_buffer() if policy.buffers == 1 else two_buffers()}
</%def>

<%def name="one_buffer()">
    ${registers.point("0")}
    for (int step = 0; step < k_steps; ++step) {
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
% if policy.prefetch_local:
    ${registers.declare(tile, "p")}
    ${registers.declare(tile, "q")}
    ${registers.point("0")}
    ${registers.fetch(tile, "p", 0)}
% endif
    for (int step = 0; step < k_steps; ++step) {
        ${next_panels()}
        ${"" if policy.prefetch else store_next()}
% if policy.prefetch_local:
        ${registers.steps_ahead(tile, a.depth, capture(switch))}
% else:
        ${registers.point("buffer")}
        ${registers.steps(tile, a.depth)}
        ${switch()}
% endif
    }
</%def>

## Load the panels of a step from global memory to registers, and advance along k.  step: a C expression, the number of
## the step in the loop.  last: a C expression, whether it is the last step along k; after it, with `stagger`, the
## pointers return to the first step along k (see gemm).
<%def name="load(step)">
<% last = f"{step} == k_steps - 1{' - start' if stagger else ''}" %>\
% if tail:
    if (${last} && tail < ${a.steps}) {
        ${panel.load(a, True)}
        ${panel.load(b, True)}
    } else {
        ${panel.load(a, False)}
        ${panel.load(b, False)}
    }
% else:
    ${panel.load(a, False)}
    ${panel.load(b, False)}
% endif
<% distance = f"({last} ? {a.steps} - {a.steps}l * k_steps : {a.steps}l)" if stagger else str(a.steps) %>\
    ${panel.advance(a, distance)}
    ${panel.advance(b, distance)}
</%def>

## Store the registers to local memory.
<%def name="store_panels(buffer)">
    ${panel.store(a, buffer)}
    ${panel.store(b, buffer)}
</%def>

## Load the panels of the next step, if there is one, to registers.
<%def name="next_panels()">
        if (step + 1 < k_steps) {
            ${load("step + 1")}
        }
</%def>

## Store the panels of the next step, if there is one, in the other buffer.
<%def name="store_next()">
        if (step + 1 < k_steps) {
            ${store_panels("(buffer ^ 1)")}
        }
</%def>

## Switch to the panels of the next step.
<%def name="switch()">
        ${store_next() if policy.prefetch else ""}
        barrier(CLK_LOCAL_MEM_FENCE);
        buffer ^= 1;
        ${registers.point("buffer") if policy.prefetch_local else ""}
</%def>
