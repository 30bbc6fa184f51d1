## backward (see there) on the matrix units of NVIDIA's warps: for 16-bit floats, by one side, without dropout.
##
##   own rows   | 16 B rows of warp 0 | of warp 1 | ...   a warp keeps the sums of its rows in registers
##   others     | TK | TK | ...                           tiles of both arrays in local memory, by asynchronous copies;
##                                                        the next tile arrives while this one is multiplied
##
##   side "q":   s = q k',  dp = grad v'     p = exp(scale s + mask - sums),  ds = p (dp - delta)     dq = scale * ds k
##   side "k":   s = k q',  dp = v grad'     p, ds: as for "q"                  dk = scale * ds q,  dv = p grad
##
## Products, sums, p and ds are float32; p and ds are rounded to 16 bits as operands.  Exponentials are to base 2.  As
## an operand p is 2^shift times as large, so that small ones are not subnormal float16.  The order of sums is fixed.
## Launch: `blocks` groups of 32 * warps work-items for each head (of keys, for side "k") of each batch.
##
## kind  f16 or bf16      DQ, DV  extents of a row of q and of v, rounded up to 16      mask, causal  as in forward
## policy  GradientPolicy: warps; blocks, B above; others, TK above      shift  see above
## row_arrays, tile_arrays  arrays of own rows, and of the others: first that of s, then that of dp; each has a name, an
##         extent and the argument that is the extent      g, c  lane / 4 and lane % 4: see _products
## t0  the tile's first row      first_own  the warp's first own row      dx, dv  sums of dq or dk, and of dv
## Local memory has rows of 16-bit elements, two in a uint (_copies); NAME_base, stage are addresses in bytes.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="products" file="/attention/_products.cl.mako"/>
<%namespace name="values" file="/attention/_values.cl.mako"/>
<%namespace name="copies" file="/attention/_copies.cl.mako"/>
<%namespace name="pairs" file="/attention/_mma_pairs.cl.mako"/>
<%namespace name="stores" file="/attention/_gradient_store.cl.mako"/>
<%namespace name="of_query" file="/attention/_gradient_queries.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    B, TK, W = policy.blocks, policy.others, policy.warps
    G, TM, STAGE = 32 * W, 16 * B * W, 2 * TK * (DQ + DV)
    by_query, adds = side == "q", mask and not mask.boolean
    outputs = (("dq", "dx", DQ),) if by_query else (("dk", "dx", DQ), ("dv", "dv", DV))
%>
% for e in dict.fromkeys([elem, wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${values.define(kind)}
${copies.define()}
${products.define(kind)}
__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("attention_backward")}
{
    __local uint own_local[${TM * (DQ + DV) // 2}] __attribute__((aligned(128)));
    __local uint tile_local[${STAGE // 2}] __attribute__((aligned(128)));  // two stages
% if not by_query:
    __local float2 of_queries[${2 * TK}];  // m and delta of the queries of both stages
    float2 next = 0;
% endif
    const uint t = get_local_id(0), lane = t % 32u, g = lane / 4u, c = lane % 4u;
    const uint number = get_group_id(0) % blocks, head = get_group_id(0) / blocks;
    const uint own_heads = ${"heads" if by_query else "heads / shared"}, rows = ${"queries" if by_query else "keys"};
    const uint others = ${"keys" if by_query else "queries"}, b = head / own_heads, own_head = head % own_heads;
    const uint first = ${"(blocks - 1u - number)" if causal and by_query else "number"} * ${TM}u;
    const uint first_own = first + t / 32u * ${16 * B}u;
    const uint begin = ${f"first / {TK}u * {TK}u" if causal and not by_query else "0"};
    const uint end = ${f"min(others, first + {TM}u)" if causal and by_query else "others"};
% for base, at in (("own", row_arrays), ("tile", tile_arrays)):
    const uint ${at[0][0]}_base = local_address(${base}_local);
    const uint ${at[1][0]}_base = ${at[0][0]}_base + ${2 * DQ * (TM if base == "own" else TK)}u;
% endfor
% if by_query:
    __global const ushort *const grad_rows = grad_data + grad_offset + b * grad_batch + own_head * grad_head;
% endif
% for name, D, extent in row_arrays:
    ${name}_data += ${name}_offset + b * ${name}_batch + own_head * ${name}_head + first * ${name}_row;
${copies.place(name, D, TM, extent, G)}\
${copies.copy(name, D, TM, extent, G, "rows - first")}\
% endfor
    COPIES_COMMIT();
    uint h = own_head${" / shared" if by_query else " * shared"};
% for name, D, extent in tile_arrays:
    ${name}_data += ${name}_offset + b * ${name}_batch + h * ${name}_head + begin * ${name}_row;
${copies.place(name, D, TK, extent, G)}\
% endfor
${pairs.places()}\
% for name, D in (("dx", DQ), ("dv", DV))[:len(outputs)]:
% for i, j in ((i, j) for i in range(B) for j in range(D // 8)):
    float ${", ".join(f"{name}{i}_{j}_{r} = 0" for r in range(4))};
% endfor
% endfor
    const float factor = ${"scale" if adds else "scale * M_LOG2E_F"};
    uint stage = 0;  // an offset in bytes
% if not by_query:
    const uint copied = begin < end ? (end - begin + ${TK - 1}u) / ${TK}u * ${TK}u : 0;  // rows of a head
% endif
% if by_query:
    h = own_head;
${of_query.declare_own()}\
% else:
    for (const uint after = h + shared; h < after; ++h) {
        barrier(CLK_LOCAL_MEM_FENCE);  // the tiles of the last head are no longer read
% endif
${of_query.copy(copies.copy, "begin", " + stage")}\
${of_query.store_next(f"(stage ? {TK}u : 0u)")}\
    for (uint t0 = begin; t0 < end; t0 += ${TK}u) {
        COPIES_WAIT();
        barrier(CLK_LOCAL_MEM_FENCE);  // the tile has arrived, and the other stage is no longer read
${of_query.copy(copies.copy, f"t0 + {TK}u", f" + (stage ^ {STAGE}u)")}\
${pairs.multiply()}\
        stage ^= ${STAGE}u;
${of_query.store_next(f"(stage ? {TK}u : 0u)")}\
    }
% if not by_query:
% for name, _, _ in tile_arrays:
        ${name}_data += ${name}_head - (long)copied * ${name}_row;
% endfor
    }
% endif
${stores.store(outputs)}\
}
