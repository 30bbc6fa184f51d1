## backward (see there) on warpgroups' matrix units: the gradients of 16-bit floats by one side, without dropout.
##
##   own rows   | 64 |                           the group is a warpgroup, which keeps the sums of its rows in registers
##   others     | TK | TK | ...                  `stages` tiles of both arrays in local memory, by asynchronous copies;
##                                               the next tile arrives while this one is multiplied
##
## Products, p, ds and the order of sums are as in mma_backward.  With two stages each turn of the loop waits for all
## its products; with three the sums of a turn are awaited in the next one, after its first products have been started.
##
## policy  WarpgroupGradientPolicy: others, TK above; stages      DQ, DV  64 or 128      Other parameters, names and the
## launch are as in mma_backward; a tile is stored in lines of 128 bytes (_lines).
## s, dp: products of pairs; p, ds: operands made of them; dx, dv: sums of dq or dk, and of dv.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="values" file="/attention/_values.cl.mako"/>
<%namespace name="copies" file="/attention/_copies.cl.mako"/>
<%namespace name="lines" file="/attention/_lines.cl.mako"/>
<%namespace name="units" file="/attention/_warpgroup.cl.mako"/>
<%namespace name="products" file="/attention/_wgmma_pairs.cl.mako"/>
<%namespace name="stores" file="/attention/_gradient_store.cl.mako"/>
<%namespace name="of_query" file="/attention/_gradient_queries.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    TK, TM, G, STAGE = policy.others, policy.rows, policy.group_size, 2 * policy.others * (DQ + DV)
    by_query, adds = side == "q", mask and not mask.boolean
    outputs = (("dq", "dx", DQ),) if by_query else (("dk", "dx", DQ), ("dv", "dv", DV))
    sums = [name for _, name, _ in outputs]
%>
% for e in dict.fromkeys([elem, wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${values.define(kind)}
${copies.define()}
${units.define()}
% for x in ("s", "dp"):
${units.from_local(x, TK, kind)}
% endfor
% for _, x, D in outputs:
${units.from_registers(x, D, kind)}
% endfor
__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("attention_backward")}
{
    __local uint own_local[${TM * (DQ + DV) // 2}] __attribute__((aligned(1024)));
    __local uint tile_local[${policy.stages * STAGE // 4}] __attribute__((aligned(1024)));
% if not by_query:
    __local float2 of_queries[${2 * TK}];  // m and delta of the queries of this tile and of the next
    float2 next = 0;
% endif
    const uint t = get_local_id(0), lane = t % 32u, g = lane / 4u, c = lane % 4u;
    const uint number = get_group_id(0) % blocks, head = get_group_id(0) / blocks;
    const uint own_heads = ${"heads" if by_query else "heads / shared"}, rows = ${"queries" if by_query else "keys"};
    const uint others = ${"keys" if by_query else "queries"}, b = head / own_heads, own_head = head % own_heads;
    const uint first = ${"(blocks - 1u - number)" if causal and by_query else "number"} * ${TM}u;
    const uint first_own = first + t / 32u * 16u;
    const uint begin = ${f"first / {TK}u * {TK}u" if causal and not by_query else "0"};
    const uint end = ${f"min(others, first + {TM}u)" if causal and by_query else "others"};
% for base, at, count in (("own", row_arrays, TM), ("tile", tile_arrays, TK)):
    const uint ${at[0][0]}_base = local_address(${base}_local);
    const uint ${at[1][0]}_base = ${at[0][0]}_base + ${2 * DQ * count}u;
% endfor
% if by_query:
    __global const ushort *const grad_rows = grad_data + grad_offset + b * grad_batch + own_head * grad_head;
% endif
% for name, D, extent in row_arrays:
    ${name}_data += ${name}_offset + b * ${name}_batch + own_head * ${name}_head + first * ${name}_row;
${lines.place(name, D, TM, extent, G)}\
${lines.copy(name, D, TM, extent, G, "rows - first")}\
    const ulong at_${name} = DESCRIPTOR(${name}_base, 512);
% endfor
    COPIES_COMMIT();
    uint h = own_head${" / shared" if by_query else " * shared"};
% for name, D, extent in tile_arrays:
    ${name}_data += ${name}_offset + b * ${name}_batch + h * ${name}_head + begin * ${name}_row;
${lines.place(name, D, TK, extent, G)}\
% endfor
% for x, D in (("s", TK), ("dp", TK), *((x, D) for _, x, D in outputs)):
% for j in range(D // 8):
    float ${", ".join(f"{x}0_{j}_{r} = 0" for r in range(4))};
% endfor
% endfor
% for x in ("ds",) if by_query else ("ds", "p"):
    uint ${", ".join(f"{x}0_{j}_{r}" for j in range(0, TK // 8, 2) for r in range(4))};
% endfor
    const float factor = ${"scale" if adds else "scale * M_LOG2E_F"};
    uint stage = 0;  // an offset in bytes
% if by_query:
    h = own_head;
${of_query.declare_own()}\
% else:
    uint queries_at = 0;  // where the tile's m and delta are in of_queries, which has two halves
    const uint copied = begin < end ? (end - begin + ${TK - 1}u) / ${TK}u * ${TK}u : 0;  // rows of a head
    for (const uint after = h + shared; h < after; ++h) {
        barrier(CLK_LOCAL_MEM_FENCE);  // the tiles of the last head but its last one are no longer read
% endif
${of_query.copy(lines.copy, "begin", " + stage")}\
${of_query.store_next("queries_at")}\
    for (uint t0 = begin; t0 < end; t0 += ${TK}u) {
        const uint ahead = stage == ${(policy.stages - 1) * STAGE}u ? 0u : stage + ${STAGE}u;
        COPIES_WAIT();
        FENCE_TILES();
        barrier(CLK_LOCAL_MEM_FENCE);  // the tile has arrived, and the stage ahead is no longer read
${products.multiply()}\
        stage = ahead;
% if not by_query:
        queries_at ^= ${TK}u;
% endif
${of_query.store_next("queries_at")}\
    }
% if not by_query:
% for name, _, _ in tile_arrays:
        ${name}_data += ${name}_head - (long)copied * ${name}_row;
% endfor
    }
% endif
% for x in sums:
    WAIT_${x}(0);
% endfor
${stores.store(outputs)}\
}
