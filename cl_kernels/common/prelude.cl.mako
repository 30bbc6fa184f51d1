## What every kernel starts with: the names of device classes, extensions, and fences.
## Two marks are for PoCL on CPUs; portable_gpu/runtime/pocl_bodies.py reads them and says why they save time:
##   //@noinline          the function is not inlined into the kernel, so that it is compiled by itself
##   //@optimised_twice   clang's passes run before PoCL's own, which they do not for other texts
// Facts of the device are -D options: DEVICE, CUDA_SM, WAVEFRONT_SIZE, LOCKSTEP,
// SUBGROUP_FUNCTIONS, DPP, BUILTINS_INLINE, REQUIRE_SUBGROUP_SIZE.
#define CUDA_DEVICE 1
#define GCN_DEVICE 2
#define RDNA_DEVICE 3
#define INTEL_GPU_DEVICE 4
#define CPU_DEVICE 5
#define GENERIC_DEVICE 6

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

% if target.facts.type == "cpu":
// clang warns of functions with vectors wider than the processor's, because files that are compiled with other options
// pass them in another way.  Here all functions are in one file.
#ifdef __has_warning
#if __has_warning("-Wpsabi")
#pragma clang diagnostic ignored "-Wpsabi"
#endif
#endif

% endif
// For kernels that exchange lanes: the sub-group size for which the text was rendered.
#if REQUIRE_SUBGROUP_SIZE
#define SUBGROUP_KERNEL __attribute__((intel_reqd_sub_group_size(WAVEFRONT_SIZE)))
#else
#define SUBGROUP_KERNEL
#endif

// In the place of reqd_work_group_size, where a kernel's group size is not stated to the compiler
// (group/group.cl.mako).
#define UNBOUND_GROUP(size)

// |x| of floats, x converted to another vector type, and a hint that the cache line at p is needed soon.
// Where the compiler does not inline built-ins, a call to one would spill every vector around it;
// and PoCL 3.0 passes vectors of 64 bytes wrongly where it compiles for fewer bytes than its
// built-ins were compiled for.
#if BUILTINS_INLINE
#define ABS(x) fabs(x)
#define CONVERT(type, x) convert_##type(x)
#define PREFETCH(p) prefetch((__global const char *)(p), 1)
#define PREFETCH_FAR(p) PREFETCH(p)  // for data that the first cache has no space for: into the second one
#else
#define ABS(x) ((x) < 0 ? -(x) : (x))
#define CONVERT(type, x) __builtin_convertvector(x, type)
#define PREFETCH(p) __builtin_prefetch((const void *)(size_t)(p))
#define PREFETCH_FAR(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#endif

// NVIDIA's compiler makes N accesses of vload_halfN and vstore_halfN, and the GPU does not merge them.
#if defined(__NV_CL_C_VERSION) || defined(__NVPTX__)
#define HALF_VECTORS_SPLIT 1
#else
#define HALF_VECTORS_SPLIT 0
#endif

// Where a CPU converts float16 by an instruction, clang's functions do that inline, and loops of them become vectors.
// PoCL's vload_half and vstore_half are calls.  Clang before version 8 does not have these functions.
#if !BUILTINS_INLINE && (defined(__F16C__) || defined(__aarch64__))
#define HALVES_INLINE __has_builtin(__builtin_load_halff)
#else
#define HALVES_INLINE 0
#endif

// DEVICE_FENCE orders the global writes of a work-item before its later ones, as other work-groups see them.
// GROUP_FENCE, before a barrier, orders the writes of all work-items before what one of them writes after the barrier
// and a DEVICE_FENCE.  It is empty where that fence is cumulative over barriers (PTX's memory model, from SM 70 on).
#if defined(__NV_CL_C_VERSION) || defined(__NVPTX__)
#if CUDA_SM >= 70
#define DEVICE_FENCE() asm volatile("fence.acq_rel.gpu;" ::: "memory")
#define GROUP_FENCE()
#else
#define DEVICE_FENCE() asm volatile("membar.gl;" ::: "memory")
#define GROUP_FENCE() DEVICE_FENCE()
#endif
#elif defined(__AMDGCN__)
#define DEVICE_FENCE() __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent")
#define GROUP_FENCE() DEVICE_FENCE()
#else
#define DEVICE_FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)
#define GROUP_FENCE() DEVICE_FENCE()
#endif

// Loads and stores of uints and ulongs by which work-groups communicate.  Atomics are coherent on every device.
// Volatile accesses are coherent on NVIDIA's devices, and where the target states it, and are many times as fast.
#if ${int(target.volatile_is_shared)} || defined(__NV_CL_C_VERSION) || defined(__NVPTX__)
#define LOAD_PUBLISHED(p) (*(p))
#define STORE_PUBLISHED(p, v) (*(p) = (v))
#define LOAD_PUBLISHED_LONG(p) (*(p))
#define STORE_PUBLISHED_LONG(p, v) (*(p) = (v))
#else
#ifdef cl_khr_int64_base_atomics
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif
#define LOAD_PUBLISHED(p) atomic_or(p, 0u)
#define STORE_PUBLISHED(p, v) atomic_xchg(p, v)
#define LOAD_PUBLISHED_LONG(p) atom_add(p, 0ul)
#define STORE_PUBLISHED_LONG(p, v) atom_xchg(p, v)
#endif

// A __local array of a kernel, as it is to be passed to a function.  LLVM moves an address that
// is the same in every call into the function, and there PoCL 3.0 takes the array for a static one:
// all its threads share it, and work-groups overwrite each other's.  An offset that is 0 in every
// one-dimensional launch, and that the compiler does not know, prevents that.
#if BUILTINS_INLINE
#define LOCAL_ARRAY(array) (array)
#else
#define LOCAL_ARRAY(array) ((array) + (get_work_dim() - 1u))
#endif
