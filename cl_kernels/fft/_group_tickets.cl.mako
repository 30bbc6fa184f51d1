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

<%def name="take(ids)">
% if ids:
    const uint2 task = task_of(get_group_id(0), parts, groups0, groups1, lag);
% else:
    __local uint2 taken;
    if (id == 0)
        taken = task_of(atomic_inc(ready), parts, groups0, groups1, lag);
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint2 task = taken;
% endif
    const bool second = task.x;
    const uint number = task.y, part = number / (second ? groups1 : groups0);
    volatile __global uint *made = ready + 2 + 2 * part, *is_read = made + 1;
</%def>

<%def name="wait()">
        if (id == 0) {
            while (LOAD_PUBLISHED(made) < groups0) continue;
            SHARED_FENCE();
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
</%def>

<%def name="look()">
        volatile __global uint *before = is_read - 2 * ring;
        const uint seen = id == 0 && part >= ring ? LOAD_PUBLISHED(before) : groups1;
</%def>

<%def name="is_free()">
    if (part >= ring) {
        if (seen < groups1)
            while (LOAD_PUBLISHED(before) < groups1) continue;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
</%def>

<%def name="has_read()">
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (id == 0)
        atomic_inc(is_read);
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
            atomic_inc(made);
        }
</%def>

<%def name="finish()">
        if (number == parts * groups1 - 1) {
            for (uint i = id; i < parts; i += get_local_size(0))
                while (LOAD_PUBLISHED(ready + 3 + 2 * i) < groups1) continue;
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            for (uint i = id; i < 2 + 2 * parts; i += get_local_size(0)) STORE_PUBLISHED(ready + i, 0u);
        }
</%def>
