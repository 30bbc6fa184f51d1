## The one place where facts of the device select the mechanism by which lanes exchange values.
##
##   ACC_subgroupW(v, slot)          fold v over each run of W consecutive work-items (W a power of
##                                   two, at most WAVEFRONT_SIZE).  The first of them holds the result.
##   ACC_subgroupW(v, slot, lanes)   with `runs`: over each run of `lanes`, a power of two up to W,
##                                   which is the same for all work-items
##
## Every work-item of the group must make the call, because a mechanism may need barriers.
## slot is &scratch[get_local_id(0)] of SUBGROUP_SCRATCH(ACC, scratch, group size).
##
## acc: portable_gpu.codegen.operators.Accumulator, whose ACC_combine is defined before.
<%namespace name="serial" file="/subgroup/serial.cl.mako"/>
<%namespace name="warp_shuffle" file="/subgroup/warp_shuffle.cl.mako"/>
<%namespace name="warp_volatile" file="/subgroup/warp_volatile.cl.mako"/>
<%namespace name="wavefront_dpp" file="/subgroup/wavefront_dpp.cl.mako"/>
<%namespace name="wavefront_lds" file="/subgroup/wavefront_lds.cl.mako"/>
<%namespace name="khr_subgroup" file="/subgroup/khr_subgroup.cl.mako"/>
<%def name="define(acc, width, runs=False)">
#if DEVICE == CPU_DEVICE
${serial.define(acc, width, runs)}
#define SUBGROUP_USES_SCRATCH 0
#elif SUBGROUP_FUNCTIONS
${khr_subgroup.define(acc, width, runs)}
#define SUBGROUP_USES_SCRATCH 0
#elif DEVICE == CUDA_DEVICE && CUDA_SM >= 30
${warp_shuffle.define(acc, width, runs)}
#define SUBGROUP_USES_SCRATCH 0
#elif DEVICE == CUDA_DEVICE
${warp_volatile.define(acc, width, runs)}
#define SUBGROUP_USES_SCRATCH 1
#elif DPP
${wavefront_dpp.define(acc, width, runs)}
#define SUBGROUP_USES_SCRATCH 0
#else
${wavefront_lds.define(acc, width, runs)}
#define SUBGROUP_USES_SCRATCH 1
#endif
#if SUBGROUP_USES_SCRATCH
#define SUBGROUP_SCRATCH(T, name, size) __local T name[size]
#define SUBGROUP_SLOT(name) (&(name)[get_local_id(0)])
#else
#define SUBGROUP_SCRATCH(T, name, size)
#define SUBGROUP_SLOT(name) 0
#endif
</%def>
