## NVIDIA from SM 30: lanes exchange registers by inline PTX, 32 bits at a time.
<%namespace name="butterfly" file="/subgroup/_butterfly.cl.mako"/>
<%def name="define(acc, width, runs)">
#ifndef LANE_PARTNER
#define LANE_PARTNER(v, d) warp_shuffle_xor(v, d)
static inline uint warp_shuffle_xor(uint v, uint d)
{
    uint partner;
#if CUDA_SM >= 70
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(partner) : "r"(v), "r"(d));
#else
    asm volatile("shfl.bfly.b32 %0, %1, %2, 0x1f;" : "=r"(partner) : "r"(v), "r"(d));
#endif
    return partner;
}
#endif
${butterfly.define(acc, width, runs)}
</%def>
