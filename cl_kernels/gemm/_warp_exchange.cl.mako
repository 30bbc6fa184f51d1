## How lanes of a warp exchange values, so that each stores adjacent elements.
##
## share_pieces(x, y, upper, distance): of the pieces x and y that two lanes hold, `distance` apart, the
## lower lane gets both x, the upper one both y, first that of the lower lane.
## WARP_BARRIER(): what the warp's lanes have written to local memory is there for all of them.
<%def name="define()">
#define WARP_BARRIER() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")
static inline uint exchanged(uint mine, uint distance)
{
    uint theirs;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(theirs) : "r"(mine), "r"(distance));
    return theirs;
}
static inline void share_pieces(uint4 *x, uint4 *y, int upper, uint distance)
{
    const uint4 mine = upper ? *x : *y;
    const uint4 theirs = (uint4)(exchanged(mine.x, distance), exchanged(mine.y, distance),
        exchanged(mine.z, distance), exchanged(mine.w, distance));
    if (upper) *x = theirs;
    else *y = theirs;
}
</%def>
