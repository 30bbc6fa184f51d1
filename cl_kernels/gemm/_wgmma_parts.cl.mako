## Tiles of wgmma whose steps of k are shared (stream-K): after the first `whole` tiles, the steps of all others, one
## tile after the other, are cut into as many equal shares as there are groups.  So all groups have the same work.
##
##   group     0           1           2           3           A group works from the end of its share to the
##        +-----------+-----------+-----------+-----------+    beginning.  So the first part of a tile is done
##   tile |  0   |   1   |   2   |   3   |   4   |   5    |    early, and the group that has a tile's last part
##        +-----------+-----------+-----------+-----------+    computes it last: it adds the parts that others
##                                                             have stored, in order, and stores the tile.
## So a group waits only for groups with lower tickets (see group/waiting).  The tiles are dealt to `lanes` lists,
## called lanes, in turn, and the steps of each list are cut into the same shares.  So the groups that have the same
## share of different lanes read at the same time what adjacent tiles have in common.  A group's ticket is
## rank * lanes + lane, where `rank` is the number of its share.
##
##   partial  | the part of group 0 | group 1 | ...
##              | words 0 to 3 of work-items 0, 1, ... | words 4 to 7 of work-items 0, 1, ... |
##   counters | next ticket | flag: group 0 has stored its part | group 1 | ...    the group that waits resets a flag
##
## The copiers set the flag of their group, and wait for those of other groups before the last steps of the tile are
## multiplied.  Barriers: at `left`, all consumers have stored their part; at `here`, the parts of all other groups are
## in local memory.  Parts are copied asynchronously to the local memory of the steps of k, because registers would hold
## too few loads at a time.  A work-item copies and reads its own words only, in chunks of 8.
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%namespace name="units" file="/gemm/_units.cl.mako"/>
<%namespace name="waiting" file="/group/waiting.cl.mako"/>

## COPY_PART, COMMIT_PARTS, WAIT_FOR_PARTS: asynchronous copies of 16 bytes to local memory; each commit ends a
## group of copies, and a wait returns when at most `pending` groups are in flight.
## share: the steps of each share; the first `longer` shares have one more.
<%def name="define()">
#define COPY_PART(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory")
#define COMMIT_PARTS() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_FOR_PARTS(pending) asm volatile("cp.async.wait_group " #pending ";" ::: "memory")
// The number of the share that contains a step.
static inline int share_of(int step, int share, int longer)
{
    const int of_longer = longer * (share + 1);
    return step < of_longer ? (uint)step / (uint)(share + 1) : longer + (uint)(step - of_longer) / (uint)share;
}
static inline float4 part_read(uint at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at)
        : "memory");
    return v;
}
</%def>

## The group takes its ticket, and the last ticket resets the counter.  Initialise the barriers; a barrier of all
## work-items follows.
<%def name="take_ticket(policy)">
    if (t == 0) {
        barrier_init(left_base, ${128 * policy.consumers});
        barrier_init(here_base, ${policy.copiers});
        number = (int)${waiting.ticket()};
        if (number == (int)get_num_groups(0) - 1) ${waiting.clear("counters")}
    }
</%def>

## Declare the group's share: steps `low` to `end` - 1 of its lane.  all: the number of steps of a tile.
<%def name="share(depth)">\
    const int rank = (uint)number / (uint)lanes, lane_of_share = number - rank * lanes,
        all = (int)((k + ${depth - 1}) / ${depth});
    const int low = rank * share + min(rank, longer), end = low + share + (rank < longer);
</%def>

## The head of the loop over a group's tiles and parts of tiles, like `loop` of _units.  It declares from and until: the
## first step of k of the part, and the step after its last one.  copies: whether the loop copies operands; tail:
## whether it compares their steps with the end of k.
<%def name="loop(policy, names, types, problem, depth, copies=False, tail=False)">
${units.pointers(names, types)}\
        int high = end;
        for (int unit = number; unit < whole || low < high; unit += get_num_groups(0)) {
            int number_of_all = unit, from = 0, until = all;
            if (unit >= whole) {
                const int last = (uint)(high - 1) / (uint)all;
                from = max(low - last * all, 0);
                until = high - last * all;
                high -= until - from;
                number_of_all = whole + last * lanes + lane_of_share;
            }
% if problem.batch:
            const int tile = number_of_all % (${triangle.area(problem)});
% else:
            const int tile = number_of_all;
% endif
${units.place(policy, problem)}\
% if copies:
            const long k_first = from * ${depth}l;
% endif
% if tail:
            const long length = min((until - from) * ${depth}l, k - k_first);
% endif
            const int steps = until - from;
${units.begin(names, types, problem, f"first_product + number_of_all / ({capture(triangle.area, problem)})")}
</%def>

## This is executed by all copiers when all steps have been copied.  first: the number of the first copier.
<%def name="exchange(first, copiers)">
        if (end % all && t == ${first}) {
            barrier_wait(left_base, 0);
            ${waiting.set("counters + 1 + number")}\
        }
        if (low % all && low / all * all + all <= end) {
            for (int other = share_of(low / all * all, share, longer) + t - ${first}; other < rank;
                other += ${copiers}) {
                volatile __global uint *done = counters + 1 + other * lanes + lane_of_share;
                ${waiting.wait(f"!{capture(waiting.flag, 'done')}")}\
                ${waiting.clear("done")}
            }
            ${waiting.acquire()}
            barrier_arrive(here_base);
        }
</%def>
