## Two passes in one launch: which work-group of which pass a group is, and what it waits for.
##
##   part            0    1    2    3          the batch axes cut both passes into parts; the second pass reads and
##   first pass      |    |    |    |          writes a part in the target, where the first one has put it a little
##   second pass               0    1    2     before: it is still in the cache
##
## A group takes a number when it begins.  Groups of part u of the first pass take turns with those of part u - lag of the
## second one, which wait until the first one's part is made: by groups of smaller numbers, which began before.
##
##   ready     | next number | groups of the second pass that wait no more | of each part: groups of the first pass that
##             are done |; stands at 0 between launches
##
##   define()              task_of(...): the pass, and its work-group, of a number
##   parameters()          of the kernel
##   take()                second, number, made
##   wait()                until the part is made
##   between(side)         what lies between both passes as that side of one
##   tell()                the group of the first pass is done
##   finish()              the last group of all leaves `ready` at 0
<%def name="between_parameters()">, __global real_t *between_in, long between_offset</%def>
<%def name="parameters()">, volatile __global uint *ready, uint parts, uint groups0, uint groups1, uint lag</%def>

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
        taken = task_of(atomic_inc(ready), parts, groups0, groups1, lag);
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool second = taken.x;
    const uint number = taken.y;
    volatile __global uint *made = ready + 2 + number / (second ? groups1 : groups0);
</%def>

<%def name="wait()">
        if (id == 0) {
            while (LOAD_PUBLISHED(made) < groups0) continue;
            DEVICE_FENCE();
            atomic_inc(ready + 1);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
</%def>

<%def name="between(side)">
        __global ${"const " if side == "x" else ""}real_t *${side}_in = between_in;
        const long ${side}_offset = between_offset;
</%def>

<%def name="tell()">
        GROUP_FENCE();
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (id == 0) {
            DEVICE_FENCE();
            atomic_inc(made);
        }
</%def>

<%def name="finish()">
        if (number == parts * groups1 - 1) {
            while (LOAD_PUBLISHED(ready + 1) < parts * groups1) continue;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = id; i < 2 + parts; i += get_local_size(0)) STORE_PUBLISHED(ready + i, 0u);
        }
</%def>
