## NVIDIA before SM 30: volatile local memory; a warp of 32 runs in lock-step.
<%namespace name="local_tree" file="/subgroup/_local_tree.cl.mako"/>
<%def name="define(acc, width, runs)">
#ifndef SUBGROUP_SYNC
#if LOCKSTEP
#define SUBGROUP_SYNC()
#else
#define SUBGROUP_SYNC() barrier(CLK_LOCAL_MEM_FENCE)
#endif
#endif
${local_tree.define(acc, width, "volatile ", runs)}
</%def>
