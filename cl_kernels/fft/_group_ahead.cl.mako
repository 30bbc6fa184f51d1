## A part of fft/group: lines (transforms) that the copy engine of NVIDIA's GPUs copies to local memory while a group
## transforms the previous line (PTX ISA: cp.async.bulk).
##
##   line 0 of a group     copied to local memory ─▶ registers, transform, store
##   line 1                                          copied ──────────────────▶ registers, transform, store
##
##   define()             barriers that count bytes (see gemm/_barriers), and copy_line
##   begin(pass_, rank)   start the copy of the group's first line
##   load(plan, rank)     load the line to registers, and start the copy of the next one
##
## In scope: id, the local id; number, the group's line; x_at, the pointer to the work-item's first number
## (_group_places); lanes, x_lane, x_batch{d}: extents and strides; sign: see _group_numbers; re, im: number r of the
## work-item's butterfly b at b R + r.  plan (GroupShape): the first stage, of radix R, has `count` butterflies of a
## transform, `butterflies` of a work-item, which are at .item + b * items.  local memory `line`: the n numbers, (re,
## im); arrived: the barrier.  The engine needs addresses that are multiples of 16 bytes; the work-items load other
## lines themselves.  A launch has a group for each compute unit.  There are `groups` lines; group i transforms lines i,
## i + number of groups, ...
<%!
from portable_gpu.codegen import axes
%>
<%namespace name="boxes" file="/gemm/_boxes.cl.mako"/>
<%namespace name="barriers" file="/gemm/_barriers.cl.mako"/>
<%def name="define()">
${barriers.define()}
${boxes.show()}${boxes.expect()}\
static inline void copy_line(uint to, __global const real_t *from, uint bytes, uint barrier)
{
    barrier_expect(barrier, bytes);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
static inline bool engine_takes(__global const real_t *from) { return (ulong)from % 16 == 0; }
</%def>

## An expression: the pointer to line `number` of x: lane number % lanes of batch item number / lanes.
<%def name="line(rank, number)"><% batch = axes.digits("batch", rank, f"({number} / (uint)lanes)") %>\
x_data + 2 * (x_offset + (long)(${number} % lanes) * x_lane\
${"".join(f" + {at} * x_batch{d}" for d, at in enumerate(batch))})\
</%def>

<%def name="begin(pass_, rank)">
    __local real_t line[${2 * pass_.plan.n}] __attribute__((aligned(128)));
    __local ulong arrived[1];
    const uint barrier_at = local_address(arrived);
    uint parity = 0;
    if (id == 0) {
        barrier_init(barrier_at, 1);
        barriers_published();
        __global const real_t *next = ${line(rank, "(uint)get_group_id(0)")};
        if (engine_takes(next))
            copy_line(local_address(line), next, ${2 * pass_.plan.n} * sizeof(real_t), barrier_at);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>

<%def name="load(plan, rank)">
<% first = plan.stages[0] %>\
    if (engine_takes(x_at - 2 * (long)${first.item})) {
        barrier_wait(barrier_at, parity);
        parity ^= 1;
% for b in range(first.butterflies):
% for r in range(first.radix):
        {
            const pair_t v = exchanged(((__local const pair_t *)line)[${first.item}
                + ${b * plan.items + r * first.count}], sign);
            re[${b * first.radix + r}] = v.x, im[${b * first.radix + r}] = v.y;
        }
% endfor
% endfor
    } else {
% for b in range(first.butterflies):
% for r in range(first.radix):
        {
            const pair_t v = exchanged(*(__global const pair_in_memory_t *)(x_at
                + ${2 * (b * plan.items + r * first.count)}), sign);
            re[${b * first.radix + r}] = v.x, im[${b * first.radix + r}] = v.y;
        }
% endfor
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (id == 0 && number + get_num_groups(0) < groups) {
        __global const real_t *next = ${line(rank, "(number + (uint)get_num_groups(0))")};
        if (engine_takes(next))
            copy_line(local_address(line), next, ${2 * plan.n} * sizeof(real_t), barrier_at);
    }
</%def>
