## How lanes of a warp exchange values, so that each stores adjacent elements.
##
## share_pieces(x, y, upper, distance): two lanes, `distance` apart, hold pieces x and y each.  The lower
## lane gets both x, the upper lane both y; the lower lane's piece comes first.
<%def name="exchange()">
static inline uint exchanged(uint mine, uint distance)
{
    uint theirs;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(theirs) : "r"(mine), "r"(distance));
    return theirs;
}
static inline void share_pieces(uint4 *x, uint4 *y, int upper, uint distance)
{
    const uint4 mine = upper ? *x : *y;
    const uint4 theirs = (uint4)(exchanged(mine.x, distance), exchanged(mine.y, distance), exchanged(mine.z, distance), exchanged(mine.w, distance));
    if (upper) *x = theirs;
    else *y = theirs;
}
</%def>
