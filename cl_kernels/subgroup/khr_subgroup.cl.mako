## Any device with sub-group shuffles (Khronos's or Intel's).
<%namespace name="butterfly" file="/subgroup/_butterfly.cl.mako"/>
<%def name="define(acc, width, runs)">
#ifndef LANE_PARTNER
#ifdef cl_khr_subgroup_shuffle
#define LANE_PARTNER(v, d) sub_group_shuffle_xor(v, (uint)(d))
#else
#define LANE_PARTNER(v, d) intel_sub_group_shuffle_xor(v, (uint)(d))
#endif
#endif
${butterfly.define(acc, width, runs)}
</%def>
