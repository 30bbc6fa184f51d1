## What a group reads next, copied to local memory while it makes transforms.  Nothing else would fill the time: the
## numbers of one group are most of a compute unit's registers.
##
##   define(real)                       COPY(to, from, bytes): a number, or zeros where there are 0 bytes
##   start(plan, source, planes, real)  each work-item copies the numbers of its own first butterflies, from x on
##   finish(plan)                       they are in re and im: of a work-item's own copies, so there is no barrier
<%namespace name="rows" file="/fft/_group_rows.cl.mako"/>
<%def name="define(real)">
#define COPY(to, from, bytes) asm volatile("cp.async.ca.shared.global [%0], [%1], ${2 * real.itemsize}, %2;" :: "r"((uint)(size_t)(to)), "l"(from), "r"(bytes) : "memory")
#define COMMIT_COPIES() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_FOR_COPIES() asm volatile("cp.async.wait_group 0;" ::: "memory")
</%def>

<%def name="start(plan, source, planes, real)">
<% first = plan.stages[0] %>\
    {
        __global const real_t *x_at = ${rows.place("x", source, first.item, f"lane0 + {planes} * {first.slot}")};
        const bool live = ${planes} * ${first.slot} < lanes_here;
% for b in range(first.butterflies):
% for r in range(plan.given):
<%
further = b * plan.items + r * first.count
there = ["live"] + [f"{first.item} + {further} < n"] * plan.chirp + [f"{first.item} + {b * plan.items} < {first.count}"] * ((b + 1) * plan.items > first.count)
%>\
        COPY(waiting + ${(b * plan.given + r) * plan.group} + id, ${rows.place("x_at", source, further, 0)}, ${" && ".join(there)} ? ${2 * real.itemsize} : 0);
% endfor
% endfor
        COMMIT_COPIES();
    }
</%def>

<%def name="finish(plan)">
<% first = plan.stages[0] %>\
    WAIT_FOR_COPIES();
% for b in range(first.butterflies):
% for r in range(plan.given):
<% k = b * first.radix + r %>\
    re[${k}] = waiting[${(b * plan.given + r) * plan.group} + id].x, im[${k}] = waiting[${(b * plan.given + r) * plan.group} + id].y * sign;
% endfor
% endfor
</%def>
