## Tiles of wgmma whose steps of k are shared (stream-K): after the first `unsplit` tiles, the steps of all others, one
## tile after the other, are cut into as many equal shares as there are groups.  So all groups have the same work.
##
##   group     0           1           2           3           A group works from the end of its share to the
##        +-----------+-----------+-----------+-----------+    beginning.  So the first part of a tile is done
##   tile |  0   |   1   |   2   |   3   |   4   |   5    |    early, and the group that has a tile's last part
##        +-----------+-----------+-----------+-----------+    computes it last: it adds the parts that others
##                                                             have stored, in order, and stores the tile.
## So a group waits only for groups with lower tickets (see group/waiting).  There are `lists` lists of tiles: adjacent
## tiles are in different lists.  The steps of each list are cut into groups / lists shares.  So the groups that have
## the same share of different lists read at the same time what adjacent tiles have in common.  A group's ticket is
## rank * lists + list, where `rank` is the number of its share.
##
##   partial  | the part of the group with ticket 0 | ticket 1 | ...
##              | words 0 to 3 of work-items 0, 1, ... | words 4 to 7 of work-items 0, 1, ... |
##   counters | next ticket | flag: ticket 0's part is stored | ticket 1's | ...    the group that waits resets a flag
##
## The copiers set the flag of their group, and wait for those of other groups before the last steps of the tile are
## multiplied.  Barriers: at `stored`, all consumers have stored their part; at `ready`, all other parts of the tile are
## in global memory.  _wgmma_fix_up adds the parts: it copies them asynchronously to the local memory of the stages,
## because registers would hold too few loads at a time.  A work-item copies and reads its own words only, in chunks of
## 8.
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%namespace name="units" file="/gemm/_units.cl.mako"/>
<%namespace name="waiting" file="/group/waiting.cl.mako"/>

## COPY_PART, COMMIT_PARTS, WAIT_FOR_PARTS: asynchronous copies of 16 bytes to local memory; each commit ends a
## group of copies, and a wait returns when at most `pending` groups are in flight.
## share: the steps of each share; the first `longer` shares have one more.
## share_of(step, ...): the number of the share that contains a step of a list.
<%def name="define()">
#define COPY_PART(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory")
#define COMMIT_PARTS() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_FOR_PARTS(pending) asm volatile("cp.async.wait_group " #pending ";" ::: "memory")
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

## The group takes its ticket, a variable in local memory, and the last ticket resets the counter.  Initialise the
## barriers; a barrier of all work-items follows.
<%def name="take_ticket(policy)">
    if (t == 0) {
        barrier_init(stored_base, ${128 * policy.consumers});
        barrier_init(ready_base, ${policy.copiers});
        ticket = (int)${waiting.ticket()};
        if (ticket == (int)get_num_groups(0) - 1) ${waiting.clear("counters")}
    }
</%def>

## Declare the group's share: steps share_begin to share_end - 1 of its list.  tile_steps: the number of steps of k of a
## tile.
<%def name="share(depth)">\
    const int rank = (uint)ticket / (uint)lists, list = ticket - rank * lists,
        tile_steps = (int)((k + ${depth - 1}) / ${depth});
    const int share_begin = rank * share + min(rank, longer), share_end = share_begin + share + (rank < longer);
</%def>

## The head of the loop over a group's tiles and then its parts of tiles.  It declares first_row and first_col of the
## tile; the pointers `names` to the operands of its product, of the C types `types`; from and until, the first step of
## k of the part and the step after its last one; and steps, their number.  copies: whether the loop copies operands;
## then k_first, the first element of k, is declared too.  tail: whether to declare length, the elements of k of the
## part.  Of the share, the steps from `remaining_end` on are done.
<%def name="loop(policy, names, types, problem, depth, copies=False, tail=False)">
${units.pointers(names, types)}\
        int remaining_end = share_end;
        for (int unit = ticket; unit < unsplit || share_begin < remaining_end; unit += get_num_groups(0)) {
            int tile_in_batch = unit, from = 0, until = tile_steps;
            if (unit >= unsplit) {
                const int tile_in_list = (uint)(remaining_end - 1) / (uint)tile_steps;
                from = max(share_begin - tile_in_list * tile_steps, 0);
                until = remaining_end - tile_in_list * tile_steps;
                remaining_end -= until - from;
                tile_in_batch = unsplit + tile_in_list * lists + list;
            }
% if problem.batch:
            const int tile = tile_in_batch % (${triangle.area(problem)});
% else:
            const int tile = tile_in_batch;
% endif
${units.place(policy, problem)}\
% if copies:
            const long k_first = from * ${depth}l;
% endif
% if tail:
            const long length = min((until - from) * ${depth}l, k - k_first);
% endif
            const int steps = until - from;
${units.begin(names, types, problem, f"first_product + tile_in_batch / ({capture(triangle.area, problem)})")}
</%def>

## This is executed by all copiers when all steps have been copied.  first: the number of the first copier.  If the
## share ends inside of a tile, the group has stored a part of it.  If it begins inside of a tile that ends in it, the
## group waits for the other parts of that tile.
<%def name="exchange(first, copiers)">
<% first_tile_begin = "share_begin / tile_steps * tile_steps" %>\
        if (share_end % tile_steps && t == ${first}) {
            barrier_wait(stored_base, 0);
            ${waiting.set("counters + 1 + ticket")}\
        }
        if (share_begin % tile_steps && ${first_tile_begin} + tile_steps <= share_end) {
            for (int other = share_of(${first_tile_begin}, share, longer) + t - ${first};
                other < rank; other += ${copiers}) {
                volatile __global uint *is_stored = counters + 1 + other * lists + list;
                ${waiting.wait(f"!{capture(waiting.flag, 'is_stored')}")}\
                ${waiting.clear("is_stored")}
            }
            ${waiting.acquire()}
            barrier_arrive(ready_base);
        }
</%def>
