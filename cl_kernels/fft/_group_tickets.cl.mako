## Two passes in one launch: which work-group of which pass a ticket stands for, and which flag it waits for.
##
##   part            0    1    2    3          the batch axes cut both passes into parts; the second pass reads and
##   first pass      |    |    |    |          writes a part in the target, where the first one has put it a little
##   second pass               0    1    2     before: it is still in the cache
##
## Work-groups are interleaved: those of part u of the first pass alternate with those of part u - lag of the second
## pass.  These wait for the first pass of their part, whose groups have lower tickets (see group/waiting).
##
##   counters  | next ticket | groups of the second pass that have waited | of each part: groups of the first pass that
##             are done |
##
##   define()              task_of(...): the pass of a ticket, and the work-group of that pass
##   take()                second, number; made: the flag of its part
##   wait()                until the first pass of the part is done
##   between(side)         the array between both passes, as that side of a pass
##   tell()                the group of the first pass is done
##   finish()              the group with the last ticket resets the counters, when all waits have ended
<%namespace name="waiting" file="/group/waiting.cl.mako"/>

<%def name="define()">
// (0 or 1, work-group of that pass).
static inline uint2 task_of(uint ticket, uint parts, uint groups0, uint groups1, uint lag)
{
    if (ticket < lag * groups0)
        return (uint2)(0, ticket);
    ticket -= lag * groups0;
    const uint both = groups0 + groups1;
    if (ticket >= (parts - lag) * both)
        return (uint2)(1, ticket - (parts - lag) * groups0);
    const uint round = ticket / both, k = ticket % both;
    const uint firsts = (uint)((ulong)k * groups0 / both);  // of the first pass, before this one
    if ((uint)((ulong)(k + 1) * groups0 / both) > firsts)
        return (uint2)(0, (round + lag) * groups0 + firsts);
    return (uint2)(1, round * groups1 + k - firsts);
}
</%def>

<%def name="take()">
    __local uint2 taken;
    if (id == 0)
        taken = task_of(${waiting.ticket()}, parts, groups0, groups1, lag);
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool second = taken.x;
    const uint number = taken.y;
    volatile __global uint *made = counters + 2 + number / (second ? groups1 : groups0);
</%def>

<%def name="wait()">
        if (id == 0) {
            ${waiting.wait(f"{capture(waiting.flag, 'made')} < groups0")}\
            ${waiting.count("counters + 1")}\
        }
        ${waiting.acquire_by_all()}\
</%def>

<%def name="between(side)">
        __global ${"const " if side == "x" else ""}real_t *${side}_in = between_in;
        const long ${side}_offset = between_offset;
</%def>

<%def name="tell()">
        ${waiting.release()}\
        if (id == 0) {
            ${waiting.count("made")}\
        }
</%def>

<%def name="finish()">
        if (number == parts * groups1 - 1) {
            ${waiting.wait(f"{capture(waiting.flag, 'counters + 1')} < parts * groups1")}\
            barrier(CLK_LOCAL_MEM_FENCE);
            ${waiting.reset("parts", "id", "get_local_size(0)")}\
        }
</%def>
