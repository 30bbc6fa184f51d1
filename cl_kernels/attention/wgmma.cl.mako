## forward (see there) on warpgroups' matrix units: out = softmax(scale * q k' + mask) v for 16-bit floats.
##
##   warps of a group                                local memory
##   0 to 3    consumer 0: 64 queries |          +---------+-------------------+-------------------+
##   4 to 7    consumer 1: 64 queries |  <---    | q       | k, `stages` tiles | v, `stages` tiles |  full, empty:
##   the last  producer: copies tiles |  ---->   +---------+-------------------+-------------------+  barriers of each
##
## While p v of a tile is computed, so are the powers of the next tile's scores.  Powers and rows are as in mma.
##
## kind, mask, causal  as in mma      DQ, DV  64 or 128      policy  WarpgroupPolicy: consumers; keys, TK above; stages
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="barriers" file="/gemm/_barriers.cl.mako"/>
<%namespace name="values" file="/attention/_values.cl.mako"/>
<%namespace name="rows" file="/attention/_rows.cl.mako"/>
<%namespace name="units" file="/attention/_warpgroup.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    TK, TM, N, SHIFT = policy.keys, policy.queries, policy.stages, 15 if kind == "f16" else 0
    work = 128 * policy.consumers
%>
% for e in dict.fromkeys([wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${values.define(kind)}
${barriers.define()}
${units.define(kind, TK, TM, N)}
${rows.define(policy, mask, causal)}
__kernel __attribute__((reqd_work_group_size(${policy.group_size}, 1, 1)))
void ${kernel("attention_wgmma")}
{
    __local uint q_local[${TM * DQ // 2}] __attribute__((aligned(1024)));
    __local uint k_local[${N * TK * DQ // 2}] __attribute__((aligned(1024)));
    __local uint v_local[${N * TK * DV // 2}] __attribute__((aligned(1024)));
    __local ulong q_full[1], k_full[${N}], v_full[${N}], k_empty[${N}], v_empty[${N}];
    const uint q_base = local_address(q_local), k_base = local_address(k_local), v_base = local_address(v_local);
    uint number = get_group_id(0), t = get_local_id(0), lane, g, c, b, h, first, own;
    LOCATE();
    const uint last = ${f"min(keys, first + {TM}u)" if causal else "keys"};
    if (t == 0) {
        barrier_init(local_address(q_full), 32);
% for s in range(N):
        barrier_init(local_address(k_full + ${s}), 32);
        barrier_init(local_address(v_full + ${s}), 32);
        barrier_init(local_address(k_empty + ${s}), ${work // 32});
        barrier_init(local_address(v_empty + ${s}), ${work // 32});
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint k_stage = 0, k_phase = 0, v_stage = 0, v_phase = 0;
    if (t >= ${work}u) {
        const uint chunk = lane % 8u, line = lane / 8u;
        const long q_at = b * q_batch + h * q_head + (first + line) * q_row;
% for name in "kv":
        const long ${name}_at = b * ${name}_batch + h / shared * ${name}_head + line * ${name}_row;
% endfor
% for name in "qkv":
        __global const ushort *${name}_from = ${name}_in + (${name}_offset + ${name}_at) + chunk * 8u;
% endfor
${units.copy("q", DQ, TM, "dq", "queries - first", "0u")}\
        COPIES_ARRIVE(local_address(q_full));
        uint k0 = 0;
        do {
% for name, D, extent in (("k", DQ, "dq"), ("v", DV, "dv")):
            barrier_wait(local_address(${name}_empty) + 8u * ${name}_stage, ${name}_phase ^ 1u);
${units.copy(name, D, TK, extent, "keys - k0", f"{name}_stage * {2 * TK * D}u")}\
            COPIES_ARRIVE(local_address(${name}_full) + 8u * ${name}_stage);
            NEXT(${name});
% endfor
            k0 += ${TK}u;
        } while (k0 < last);
        return;
    }
% for j in range(DV // 8):
    float ${", ".join(f"o0_{j}_{r} = 0" for r in range(4))};
% endfor
% for j in range(TK // 8):
    float ${", ".join(f"s0_{j}_{r} = 0" for r in range(4))};
% endfor
    uint ${", ".join(f"p0_{j}_{r}" for j in range(0, TK // 8, 2) for r in range(4))};
    float m0_0 = -FLT_MAX, z0_0 = 0, m0_1 = -FLT_MAX, z0_1 = 0;
    const float factor = scale * M_LOG2E_F;
    const ulong at_q = DESCRIPTOR(q_base + t / 128u * 8192u, 512);
    uint k0 = 0;
    barrier_wait(local_address(q_full), 0);
${units.scores()}\
    SCORES_WAIT(0);
    RELEASE(k);
    {
${rows.powers(policy, mask, causal, SHIFT)}\
        (void)shrink0_0, (void)shrink0_1;  // the sums are 0
${rows.operands(policy, "")}\
    }
    for (k0 = ${TK}u; k0 < last; k0 += ${TK}u) {
${units.scores()}\
${units.results()}\
        SCORES_WAIT(1);
        RELEASE(k);
${rows.powers(policy, mask, causal, SHIFT)}\
        RESULTS_WAIT();
        RELEASE(v);
${rows.scale_results(policy, DV)}\
${rows.operands(policy, "")}\
    }
${units.results()}\
    RESULTS_WAIT();
    COMPUTE_AGAIN("+r", number);
    COMPUTE_AGAIN("+r", t);
    LOCATE();
${rows.store(policy, DV, SHIFT)}\
}
