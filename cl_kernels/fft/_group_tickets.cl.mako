## Two passes in one launch: which work-group of which pass a group is, and what it waits for.
##
##   part            0    1    2    3          the leading batch axes cut both passes into parts
##   first pass      |    |    |    |          `between` holds `ring` parts of what it makes: what is read soon is
##   second pass               0    1    2     still in the cache, and what was read is written over there
##
## A group takes a number when it begins.  Numbers go on by the parts: groups of part u of the first pass take turns
## with those of part u - lag of the second one.  A group of the second pass waits until the first one's part is made;
## one of the first until the second one's part before it in the ring was read.  All that a group waits for has smaller
## numbers, so it began before.
##
##   ready     | next number | groups of the second pass that are done | of each part: done by the first, by the second |
##             stands at 0 between launches
##
##   define()              task_of(...): the pass, and its work-group, of a number
##   parameters()          of the kernel
##   take()                second, number, part
##   between(side)         the place of that part in `between` as a side of the pass: "x" or "y"
##   tell()                the group is done
<%def name="parameters()">, __global real_t *between, long between_offset, volatile __global uint *ready, uint parts, uint groups0, uint groups1, uint lag, uint ring, long part_size</%def>

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
    if (id == 0) {
        const uint2 task = task_of(atomic_inc(ready), parts, groups0, groups1, lag);
        const uint part = task.y / (task.x ? groups1 : groups0);
        if (task.x)
            while (LOAD_PUBLISHED(ready + 2 + 2 * part) < groups0);
        else if (part >= ring)
            while (LOAD_PUBLISHED(ready + 3 + 2 * (part - ring)) < groups1);
        DEVICE_FENCE();
        taken = task;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool second = taken.x;
    const uint number = taken.y;
    const uint part = number / (second ? groups1 : groups0);
</%def>

<%def name="between(side)">
        __global ${"const " if side == "x" else ""}real_t *${side}_in = between;
        const long ${side}_offset = between_offset + (long)(part % ring) * part_size;
</%def>

<%def name="tell()">
    GROUP_FENCE();
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (id == 0) {
        DEVICE_FENCE();
        atomic_inc(ready + 2 + 2 * part + second);
        DEVICE_FENCE();
        taken.x = second && atomic_inc(ready + 1) == parts * groups1 - 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (taken.x)
        for (uint i = id; i < 2 + 2 * parts; i += get_local_size(0)) STORE_PUBLISHED(ready + i, 0u);
</%def>
