## Barriers of NVIDIA GPUs in local memory (PTX ISA, mbarrier), 8 bytes each.  A barrier counts arrivals; when the
## expected number has arrived, its phase ends and the next one begins.  The phases of a barrier have the parities
## 0, 1, 0 ...  barrier_wait(at, parity) returns when the phase with this parity has ended.  At a new barrier a wait for
## parity 1 returns at once.  `at` is a barrier's address in local memory, in bytes.
<%def name="define()">
static inline uint local_address(const __local void *p) { return (uint)(size_t)p; }
static inline void barrier_init(uint at, uint arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(arrivals) : "memory");
}
static inline void barrier_arrive(uint at)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" :: "r"(at) : "memory");
}
static inline void barrier_wait(uint at, uint parity)
{
    uint done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.${"try_wait" if target.matrix_units == "wgmma" else "test_wait"}\
.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at), "r"(parity) : "memory");
    } while (!done);
}
</%def>

## Initialise the two barriers of each stage: the one at full_base + 8 * stage for `full` arrivals, the one at
## empty_base + 8 * stage for `empty` arrivals.  t is the number of the work-item.  The first work-item of each warp
## initialises a stage, because work-items of one warp would do it one after the other.
<%def name="start(policy, full, empty)">
    for (int i = t / 32; i < ${policy.stages}; i += ${policy.group_size // 32}) {
        if (t % 32) break;
        barrier_init(full_base + 8 * i, ${full});
        barrier_init(empty_base + 8 * i, ${empty});
    }
</%def>
