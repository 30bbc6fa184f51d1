## AMD's clang (GCN 1.2 and later, RDNA): lanes exchange registers by DPP, and in the wide steps by
## ds_swizzle and ds_bpermute, which use the LDS crossbar but no LDS memory.
##
##   d = 1   quad_perm [1,0,3,2]          d = 4   row_half_mirror (lane i of 8 reads 7 - i)
##   d = 2   quad_perm [2,3,0,1]          d = 8   row_mirror      (lane i of 16 reads 15 - i)
##   d = 16  ds_swizzle xor 16            d = 32  ds_bpermute
## Mirrors are enough because all lanes of a half already hold the same value (see _butterfly).
<%namespace name="butterfly" file="/subgroup/_butterfly.cl.mako"/>
<%def name="define(acc, width, runs)">
#ifndef LANE_PARTNER
#define DPP_MOVE(v, control) (uint)__builtin_amdgcn_mov_dpp((int)(v), control, 0xf, 0xf, true)
#define LANE_PARTNER(v, d) lane_partner_##d(v)
static inline uint lane_partner_1(uint v) { return DPP_MOVE(v, 0xb1); }
static inline uint lane_partner_2(uint v) { return DPP_MOVE(v, 0x4e); }
static inline uint lane_partner_4(uint v) { return DPP_MOVE(v, 0x141); }
static inline uint lane_partner_8(uint v) { return DPP_MOVE(v, 0x140); }
static inline uint lane_partner_16(uint v)
{
    return (uint)__builtin_amdgcn_ds_swizzle((int)v, 0x401f);
}
static inline uint lane_partner_32(uint v)
{
    const int other = (int)((get_local_id(0) ^ 32u) << 2);
    return (uint)__builtin_amdgcn_ds_bpermute(other, (int)v);
}
#endif
${butterfly.define(acc, width, runs)}
</%def>
