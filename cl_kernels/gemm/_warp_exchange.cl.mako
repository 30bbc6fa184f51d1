## Exchange of values between the lanes of a warp (NVIDIA), so that each lane stores adjacent elements.
##
##   exchanged(mine, distance)            `mine` of lane (this lane ^ distance)
##   of_lane(mine, lane)                  `mine` of lane `lane`
##   exchange_chunks(x, y, upper, distance)   two lanes, `distance` apart, have chunks x, y of 16 bytes.  Afterwards the
##                                        lower lane has the x of both, and the upper one the y of both, in the order of
##                                        the lanes.  upper: whether this is the upper lane
##   WARP_BARRIER()                       after it, all lanes of the warp see what they have written to local memory
<%def name="define()">
#define WARP_BARRIER() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")
static inline uint exchanged(uint mine, uint distance)
{
    uint theirs;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(theirs) : "r"(mine), "r"(distance));
    return theirs;
}
static inline float of_lane(float mine, int lane)
{
    float theirs;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(theirs) : "f"(mine), "r"(lane));
    return theirs;
}
static inline void exchange_chunks(uint4 *x, uint4 *y, int upper, uint distance)
{
    const uint4 mine = upper ? *x : *y;
    const uint4 theirs = (uint4)(exchanged(mine.x, distance), exchanged(mine.y, distance),
        exchanged(mine.z, distance), exchanged(mine.w, distance));
    if (upper) *x = theirs;
    else *y = theirs;
}
</%def>
