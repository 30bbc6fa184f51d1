## Work-groups of one launch that wait for each other: tickets, flags, waits, and the reset by the last group.
##
##   counters | next ticket | groups that are done | flags ...      words of 32 bits; all are 0 between launches
##
##   ticket       A group takes a ticket when it starts; the ticket determines its work.
##   flag         A group sets a flag, or counts in it, after it has written its results to global memory.
##   wait         A group waits only for flags of groups whose tickets are lower than its own.
##   last group   The last group that is done sets all words to 0 for the next launch.
##
## Forward progress: groups with lower tickets have started.  So every wait ends if all groups that have started make
## progress while others wait.  OpenCL does not guarantee this; Target.forward_progress says which devices do, and
## docs/devices.md on which of them it was tested.  A template that waits is not rendered for other devices;
## other variants are taken there.  Tickets and the last group alone need no progress (fix_up, fronts/cpu_subtrees).
##
## Memory order: OpenCL 1.2 has neither release nor acquire.  Fences and barriers take their place.
##
##   writer   all work-items   write results; release()       reader   one or more   wait(...); acquire()
##            one work-item    set(flag) or count(flag)                all           acquire_by_all(); read results
##
## DEVICE_FENCE and GROUP_FENCE (common/prelude) are fence.acq_rel or membar of PTX, AMD's fence of agent scope, and
## mem_fence elsewhere.  Flags are volatile words where the device keeps those coherent and in order, else atomic ones.
<%!
from portable_gpu.errors import UnsupportedError

BARRIER = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
%>

## For one work-item, an expression: the group's ticket.
<%def name="ticket()">atomic_inc(counters)</%def>

## For all work-items: order their writes before the flags that one of them sets next.
<%def name="release()">\
GROUP_FENCE();
        ${BARRIER}
</%def>

## The same for groups that execute a barrier of local and global memory before the flag is set.
<%def name="release_without_barrier()">GROUP_FENCE();</%def>

## For one work-item, statements, of which `flag` is a pointer: set a flag after the group's `release`; reset a flag;
## count in a flag.
<%def name="set(flag, value='1u')">\
DEVICE_FENCE();
            STORE_PUBLISHED(${flag}, ${value});
</%def>

<%def name="clear(flag)">STORE_PUBLISHED(${flag}, 0u);</%def>

<%def name="count(flag)">\
DEVICE_FENCE();
            atomic_inc(${flag});
</%def>

## An expression: the value of a flag.
<%def name="flag(place)">LOAD_PUBLISHED(${place})</%def>

## Repeat the statements `step` while the condition `pending`, which reads a flag, is true.
<%def name="wait(pending, step='')">\
<%
if not target.forward_progress:
    raise UnsupportedError(f"a device of class {target.device_class} promises no progress of waiting work-groups")
%>\
while (${pending}) {${step}}
</%def>

## For the work-items that have waited: order the flags before later reads.
<%def name="acquire()">DEVICE_FENCE();</%def>

## For all work-items, after some have waited: results of the other groups are visible after this.
<%def name="acquire_by_all()">\
${BARRIER}
        GROUP_FENCE();
</%def>

## For one work-item: count the group as done.  last: a __local variable, which is set to whether all `groups` groups
## are done.  is_last, arrives_last: expressions for this, which add 1 to the second word of counters, or at `counter`.
<%def name="done(last, groups)">\
DEVICE_FENCE();
            ${last} = ${is_last(groups)};
</%def>
<%def name="is_last(groups)">${arrives_last("counters + 1", groups)}</%def>
<%def name="arrives_last(counter, groups)">atomic_inc(${counter}) == ${groups} - 1u</%def>

## For all work-items, of which `item` is the number and `items` the count: set the first two words and `flags` more to
## 0. Flags of 64 bits: see cells.
<%def name="reset(flags, item='t', items='256u')">\
for (uint i = ${item}; i < 2u + ${flags}; i += ${items}) STORE_PUBLISHED(counters + i, 0u);
</%def>
