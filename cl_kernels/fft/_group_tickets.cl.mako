## Two passes of fft/group in one launch: the pass and the work-group of a ticket, and the counter that it waits for.
##
##   part            0    1    2    3          the batch axes divide both passes into parts; the second pass reads and
##   first pass      |    |    |    |          overwrites a part of the target that the first pass has written shortly
##   second pass               0    1    2     before, so that the part is still in the cache
##
## Work-groups are interleaved: those of part u of the first pass alternate with those of part u - lag of the second
## pass.  groups0, groups1: groups of a part in each pass.  Groups of the second pass wait for all groups of the first
## pass of their part, which have lower tickets (see group/waiting).
##
##   counters  | next ticket | groups of the second pass that have waited | for each part: finished groups |
##
## In scope: id, the local id; counters: the words above, zero at the start; parts, groups0, groups1, lag: arguments.
##
##   define()              task_of(...): the pass of a ticket, and the work-group of that pass
##   take()                declare `second` (the pass), `number` (the group) and `finished` (the counter of the part)
##   wait()                wait until the first pass of the part is finished
##   between(side)         declare the array between the passes, as the input (x) or output (y) of a pass
##   signal()              count a group of the first pass as finished
##   finish()              reset the counters by the group with the last ticket, when all waits have ended
<%namespace name="waiting" file="/group/waiting.cl.mako"/>

<%def name="define()">
// The pass of a ticket, 0 or 1, and the work-group of that pass.
static inline uint2 task_of(uint ticket, uint parts, uint groups0, uint groups1, uint lag)
{
    if (ticket < lag * groups0)
        return (uint2)(0, ticket);
    ticket -= lag * groups0;
    const uint both = groups0 + groups1;
    if (ticket >= (parts - lag) * both)
        return (uint2)(1, ticket - (parts - lag) * groups0);
    const uint round = ticket / both, place = ticket % both;  // a round has the groups of a part of each pass
    const uint first_pass_groups = (uint)((ulong)place * groups0 / both);  // those before `place`
    if ((uint)((ulong)(place + 1) * groups0 / both) > first_pass_groups)
        return (uint2)(0, (round + lag) * groups0 + first_pass_groups);
    return (uint2)(1, round * groups1 + place - first_pass_groups);
}
</%def>

<%def name="take()">
    __local uint2 task;
    if (id == 0)
        task = task_of(${waiting.ticket()}, parts, groups0, groups1, lag);
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool second = task.x;
    const uint number = task.y;
    volatile __global uint *finished = counters + 2 + number / (second ? groups1 : groups0);
</%def>

<%def name="wait()">
        if (id == 0) {
            ${waiting.wait(f"{capture(waiting.flag, 'finished')} < groups0")}\
            ${waiting.count("counters + 1")}\
        }
        ${waiting.acquire_by_all()}\
</%def>

<%def name="between(side)">
        __global ${"const " if side == "x" else ""}real_t *${side}_data = between_data;
        const long ${side}_offset = between_offset;
</%def>

<%def name="signal()">
        ${waiting.release()}\
        if (id == 0) {
            ${waiting.count("finished")}\
        }
</%def>

<%def name="finish()">
        if (number == parts * groups1 - 1) {
            ${waiting.wait(f"{capture(waiting.flag, 'counters + 1')} < parts * groups1")}\
            barrier(CLK_LOCAL_MEM_FENCE);
            ${waiting.reset("parts", "id", "get_local_size(0)")}\
        }
</%def>
