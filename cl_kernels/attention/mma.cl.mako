## forward (see there) on the matrix units of NVIDIA's warps: out = softmax(scale * q k' + mask) v for 16-bit floats.
##
##   queries | 16 B rows of warp 0 | of warp 1 | ...   a warp keeps the sums of its rows of out in registers
##   keys    | TK | TK | TK | ...                      tiles of k and v in local memory, by asynchronous copies: v
##                                                     arrives during q k', and the next k during p v
##
## The scores of a tile are the sums of q k' (see _products).  Their exponentials p, rounded to 16 bits, are operand A
## of p v: p = 2^(log2(e) (score - the row's maximum) + SHIFT).  SHIFT is 15 for float16, whose greatest power of two is
## 2^15, because small p would be subnormal without it.  A row's sum z of p is in four parts, in the lanes that share
## the row, until the end.  Numbers of a mask are added to scores before these are multiplied by log2(e), because the
## product with the least float32 would be infinite.  Local memory has rows of 16-bit elements, two in a uint, swizzled
## as in _copies; NAME_base are addresses in bytes.
##
## kind  f16 or bf16      DQ, DV  extents of a row of q and of v, rounded up to 16      mask, causal  as in forward
## policy  AttentionPolicy: warps; blocks, B above; keys, TK above      keeps_q  whether q is kept in registers
## g, c  lane / 4 and lane % 4: of a block of 8 x 8 sums the lane has row g, columns 2 c and 2 c + 1
## i, n  query, key
## number  the group; LOCATE (_rows) computes from it and from t, the local id: b, h (batch, head), first (query)
## Launch: `blocks` groups of 32 * warps work-items for each head of each batch.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="products" file="/attention/_products.cl.mako"/>
<%namespace name="values" file="/attention/_values.cl.mako"/>
<%namespace name="copies" file="/attention/_copies.cl.mako"/>
<%namespace name="rows" file="/attention/_rows.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    B, TK, W = policy.blocks, policy.keys, policy.warps
    G, TM, SHIFT = 32 * W, 16 * B * W, 15 if kind == "f16" else 0
    adds = mask and not mask.boolean
%>
% for e in dict.fromkeys([wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${values.define(kind)}
${copies.define()}
${products.define(kind)}
${rows.define(policy, mask, causal)}
__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("attention_mma")}
{
    __local uint q_local[${TM * DQ // 2}] __attribute__((aligned(128)));
    __local uint k_local[${TK * DQ // 2}] __attribute__((aligned(128)));
    __local uint v_local[${TK * DV // 2}] __attribute__((aligned(128)));
    const uint q_base = local_address(q_local), k_base = local_address(k_local), v_base = local_address(v_local);
    uint number = get_group_id(0), t = get_local_id(0), lane, g, c, b, h, first, first_of_warp;
    LOCATE();
    const uint end = ${f"min(keys, first + {TM}u)" if causal else "keys"};
    q_data += q_offset + b * q_batch + h * q_head + first * q_row;
    k_data += k_offset + b * k_batch + h / shared * k_head;
    v_data += v_offset + b * v_batch + h / shared * v_head;
% for name, D, count, extent in (("q", DQ, TM, "dq"), ("k", DQ, TK, "dq"), ("v", DV, TK, "dv")):
${copies.place(name, D, count, extent, G)}\
% endfor
${products.places(B)}\
% for i, j in ((i, j) for i in range(B) for j in range(DV // 8)):
    float ${", ".join(f"o{i}_{j}_{r} = 0" for r in range(4))};
% endfor
% for i, h in rows.module.lane_rows(B):
    float m${i}_${h} = -FLT_MAX, z${i}_${h} = 0;
% endfor
    const float factor = ${"scale" if adds else "scale * M_LOG2E_F"};
${copies.copy("q", DQ, TM, "dq", G, "queries - first")}\
${copies.copy("k", DQ, TK, "dq", G, "keys")}\
            COPIES_COMMIT();
% if keeps_q:
    COPIES_WAIT();
    barrier(CLK_LOCAL_MEM_FENCE);
% for s in range(DQ // 16):
${products.queries(B, s)}\
% endfor
% endif
    for (uint k0 = 0; k0 < end; k0 += ${TK}u) {
        const bool needed = ${f"k0 < first_of_warp + {16 * B}u" if causal else "true"};
        COPIES_WAIT();
        barrier(CLK_LOCAL_MEM_FENCE);  // k has arrived, and v is no longer read
${copies.copy("v", DV, TK, "dv", G, "keys - k0")}\
            COPIES_COMMIT();
% for i, j in ((i, j) for i in range(B) for j in range(TK // 8)):
        float ${", ".join(f"s{i}_{j}_{r} = 0" for r in range(4))};
% endfor
        if (needed) {
${products.scores(B, TK, in_registers=keeps_q)}\
        }
        COPIES_WAIT();
        barrier(CLK_LOCAL_MEM_FENCE);  // v has arrived, and k is no longer read
        if (k0 + ${TK}u < end) {
${copies.copy("k", DQ, TK, "dq", G, f"keys - k0 - {TK}u")}\
            COPIES_COMMIT();
        }
        if (needed) {
${rows.exponentials(policy, mask, causal, SHIFT)}\
${rows.scale_results(policy, DV)}\
${rows.operands(policy, "const uint ")}\
${products.results(B, TK)}\
        }
    }
    // These positions are computed again, so that the loop need not keep them in registers.
    HIDE_VALUE("+r", number);
    HIDE_VALUE("+r", t);
    LOCATE();
${rows.store(policy, DV, SHIFT, adds)}\
}
