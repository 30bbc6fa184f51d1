## GCN, and any device with no lane exchange: local memory, without volatile.  A wavefront in
## lock-step needs no barrier; the compiler must only keep the order of the accesses.
<%namespace name="local_tree" file="/subgroup/_local_tree.cl.mako"/>
<%def name="define(acc, width, runs)">
#ifndef SUBGROUP_SYNC
#if !LOCKSTEP
#define SUBGROUP_SYNC() barrier(CLK_LOCAL_MEM_FENCE)
#elif defined(__AMDGCN__)
#define SUBGROUP_SYNC()                                                                            \
    do {                                                                                           \
        __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");                                     \
        __builtin_amdgcn_wave_barrier();                                                           \
    } while (0)
#else
#define SUBGROUP_SYNC() mem_fence(CLK_LOCAL_MEM_FENCE)
#endif
#endif
${local_tree.define(acc, width, "", runs)}
</%def>
