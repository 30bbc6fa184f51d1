## SUBGROUP_SYNC(): a barrier of 32 adjacent work-items where they are one sub-group, else of the whole group.
#if (defined(__NV_CL_C_VERSION) || defined(__NVPTX__)) && CUDA_SM >= 70
#define SUBGROUP_SYNC() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")
#else
#define SUBGROUP_SYNC() barrier(CLK_LOCAL_MEM_FENCE)
#endif
