## forward (see there) on warpgroups' matrix units: out = softmax(scale * q k' + mask) v for 16-bit floats.
##
##   work-items of a group                          local memory
##   0 to 127  warpgroup 0: 64 queries |          +---------+-------------------+-------------------+
##   128 on    warpgroup 1: 64 queries |  <-->    | q       | k, `stages` tiles | v, `stages` tiles |  with two barriers
##   ...                                          +---------+-------------------+-------------------+  for each tile
##
## All work-items copy tiles.  While the matrix units compute p v of a tile, the work-items compute the exponentials of
## the next tile.  A tile is stored in lines of 128 bytes (_lines).  Its barrier `full` completes when it has arrived,
## its barrier `empty` when no warp reads it any more.  Launch: `blocks` groups of 128 * warpgroups for each head of
## each batch.
##
## Registers of a lane (see _rows): s, scores; p, their rounded exponentials; m, z: a row's maximum and sum; o, results.
## kind, mask, causal, number, t, b, h, first, SHIFT  as in mma      first_of_warp  the warp's first query
## DQ, DV  64 or 128      policy  WarpgroupPolicy: warpgroups; keys, TK below; stages, N below      end  of the keys
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="barriers" file="/gemm/_barriers.cl.mako"/>
<%namespace name="values" file="/attention/_values.cl.mako"/>
<%namespace name="rows" file="/attention/_rows.cl.mako"/>
<%namespace name="units" file="/attention/_warpgroup.cl.mako"/>
<%namespace name="lines" file="/attention/_lines.cl.mako"/>
<%namespace name="tiles_of" file="/attention/_wgmma_tiles.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    TK, TM, N, SHIFT = policy.keys, policy.queries, policy.stages, 15 if kind == "f16" else 0
    adds = mask and not mask.boolean
%>
% for e in dict.fromkeys([wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${values.define(kind)}
${barriers.define()}
${units.define()}
${units.from_local("s", TK, kind)}
${units.from_registers("o", DV, kind)}
${lines.define()}
${lines.stages(N)}
${rows.define(policy, mask, causal)}
__kernel __attribute__((reqd_work_group_size(${policy.group_size}, 1, 1)))
void ${kernel("attention_wgmma")}
{
    __local uint q_local[${TM * DQ // 2}] __attribute__((aligned(1024)));
    __local uint k_local[${N * TK * DQ // 2}] __attribute__((aligned(1024)));
    __local uint v_local[${N * TK * DV // 2}] __attribute__((aligned(1024)));
    __local ulong q_full[1], k_full[${N}], v_full[${N}], k_empty[${N}], v_empty[${N}];
    const uint q_base = local_address(q_local), k_base = local_address(k_local), v_base = local_address(v_local);
    uint number = get_group_id(0), t = get_local_id(0), lane, g, c, b, h, first, first_of_warp;
    LOCATE();
    const uint end = ${f"min(keys, first + {TM}u)" if causal else "keys"};
${tiles_of.start_barriers()}\
    barrier(CLK_LOCAL_MEM_FENCE);
    uint k_stage = 0, k_phase = 0, v_stage = 0, v_phase = 0;
${tiles_of.start_copies()}\
% for j in range(DV // 8):
    float ${", ".join(f"o0_{j}_{r} = 0" for r in range(4))};
% endfor
% for j in range(TK // 8):
    float ${", ".join(f"s0_{j}_{r} = 0" for r in range(4))};
% endfor
    uint ${", ".join(f"p0_{j}_{r}" for j in range(0, TK // 8, 2) for r in range(4))};
    float m0_0 = -FLT_MAX, z0_0 = 0, m0_1 = -FLT_MAX, z0_1 = 0;
    const float factor = ${"scale" if adds else "scale * M_LOG2E_F"};
    const ulong at_q = DESCRIPTOR(q_base + t / 128u * 8192u, 512);  // a warpgroup has 64 lines of 128 bytes
    uint k0 = 0;
    barrier_wait(local_address(q_full), 0);
    AWAIT(k);
    FENCE_TILES();
${tiles_of.scores()}\
${tiles_of.refills()}\
    WAIT_s(0);
    RELEASE(k);
    {
${rows.exponentials(policy, mask, causal, SHIFT)}\
        (void)shrink0_0, (void)shrink0_1;  // the sums are 0
${rows.operands(policy, "")}\
    }
    if (${TK}u < end) AWAIT(k);
    AWAIT(v);
    FENCE_TILES();
    for (k0 = ${TK}u; k0 < end; k0 += ${TK}u) {
${tiles_of.scores()}\
${tiles_of.results()}\
${tiles_of.refills()}\
        WAIT_s(1);
        RELEASE(k);
${rows.exponentials(policy, mask, causal, SHIFT)}\
        if (k0 + ${TK}u < end) AWAIT(k);  // without a branch ptxas moves the wait before the exponentials
        WAIT_o(0);
        RELEASE(v);
        AWAIT(v);
        FENCE_TILES();
${rows.scale_results(policy, DV)}\
${rows.operands(policy, "")}\
    }
${tiles_of.results()}\
    WAIT_o(0);
    // LOCATE again, so that the loop need not keep these variables in registers.
    HIDE_VALUE("+r", number);
    HIDE_VALUE("+r", t);
    LOCATE();
${rows.store(policy, DV, SHIFT, adds)}\
}
