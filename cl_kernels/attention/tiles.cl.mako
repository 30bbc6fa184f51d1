## forward (see there) in register tiles, for float32 arithmetic on GPUs: a group computes the scores of a tile of
## queries and keys, their exponentials, and then the products of these and the values.
##
##   queries | TM |                 local memory: TM rows of q, TN of k and of v, and the scores of a tile
##   keys    | TN | TN | ...        16 x 16 work-items; work-item (y, x) has queries y + 16 r, and of scores the columns
##                                  x + 16 c, of results the columns 4 x + 64 c and the next three
##
## W = 256 / TM work-items compute the maximum and the exponentials of a query.  A tile of v is loaded to registers
## before the products of k are computed, and the next tile of k before those of v, so that loads and products overlap.
## m, z: the running maximum of the work-item's row i, and its part of the sum of exponentials; top_of: exchanges both.
## Exponentials are to base 2, unless numbers are added to scores, because the least number times log2(e) is infinite.
##
## DQ, DV: extents of rows, rounded up to 64.  Other parameters: see forward.  Launch: `blocks` groups of 256 work-items
## for each head of each batch.  Rows in local memory are 4 elements longer, those of scores 8, so that adjacent
## rows are in different banks.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="parts" file="/attention/_register_tiles.cl.mako"/>
<%namespace name="softmax" file="/attention/_tile_rows.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    T, R, C, W = vector(real, 4), TM // 16, TN // 16, 256 // TM
    q, k, v = ("q", "dq", DQ), ("k", "dq", DQ), ("v", "dv", DV)
    cells = [(r, c) for r in range(R) for c in range(C)]
    sums = [f"sum{r}_{c}" for r in range(R) for c in range(DV // 64)]
    vectors, pitch = TN // 4 // W, TN + 8
    adds = mask and not mask.boolean
%>
% for e in dict.fromkeys([elem, wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${dropout.define(real) if drops else ""}\

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void ${kernel("attention_forward")}
{
% for (name, _, D), rows in ((q, TM), (k, TN), (v, TN)):
    __local ${real} ${name}_tile[${rows * (D + 4)}] __attribute__((aligned(16)));
% endfor
    __local ${real} pairs[${TM * pitch}] __attribute__((aligned(16)));
    __local ${real} top_of[256], factor_of[${TM}];
    // 32 adjacent work-items are 4 x 8 in (y, x), so that they read few rows of both tiles.
    const uint t = get_local_id(0), x = t % 8u + t / 32u % 2u * 8u, y = t / 8u % 4u + t / 64u * 4u;
    const uint number = get_group_id(0) % blocks, h = get_group_id(0) / blocks % heads;
    const uint b = get_group_id(0) / blocks / heads;
    const uint first = ${"(blocks - 1u - number)" if causal else "number"} * ${TM}u, i = first + t / ${W}u;
    const uint end = ${f"min(keys, first + {TM}u)" if causal else "keys"};
% if mask:
    __global const ${mask.name}_t *mask_row_data =
        mask_data + (mask_offset + b * mask_batch + h * mask_head + min(i, queries - 1u) * mask_row);
% endif
    __local ${T} *scores = (__local ${T} *)(pairs + t / ${W}u * ${pitch}u) + t % ${W}u;
    const ${real} factor = ${"scale" if adds else "scale * M_LOG2E_F"};
    ${real} m = -FLT_MAX, z = 0;
    ${T} ${", ".join(f"{s} = 0" for s in sums)};
${parts.fetch(q, "first", "queries", "h", TM)}\
${parts.place(q, TM)}\
${parts.fetch(k, "0u", "end", "h / shared", TN)}\
${parts.place(k, TN)}\
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t0 = 0; t0 < end; t0 += ${TN}u) {
${parts.fetch(v, "t0", "end", "h / shared", TN)}\
        ${real} ${", ".join(f"s{r}_{c} = 0" for r, c in cells)};
${parts.multiply("s", q, k)}\
% for r, c in cells:
        pairs[(y + ${16 * r}u) * ${pitch}u + x + ${16 * c}u] = s${r}_${c};
% endfor
${parts.place(v, TN)}\
        barrier(CLK_LOCAL_MEM_FENCE);
${softmax.largest(vectors, W)}\
        top_of[t] = largest;
        barrier(CLK_LOCAL_MEM_FENCE);
${softmax.exponentials(vectors, W, "exp" if adds else "exp2")}\
        barrier(CLK_LOCAL_MEM_FENCE);
% for r in range(R):
        const ${real} factor${r} = factor_of[y + ${16 * r}u];
% for c in range(DV // 64):
        sum${r}_${c} *= factor${r};
% endfor
% endfor
${parts.fetch(k, f"t0 + {TN}u", "end", "h / shared", TN)}\
${parts.add("sum", DV, "v")}\
${parts.place(k, TN)}\
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    top_of[t] = z;
    barrier(CLK_LOCAL_MEM_FENCE);
    z = 0;
#pragma unroll
    for (uint w = 0; w < ${W}u; ++w) z += top_of[t / ${W}u * ${W}u + w];
    if (t % ${W}u == 0) {
        factor_of[t / ${W}u] = z > 0 ? 1 / z : z;  // 0 if the query sees no key; NaN remains
        if (i < queries)
            ${wide.name}_store(sums_data + (sums_offset + b * sums_batch + h * sums_head + i * sums_row),
                ${"m + log(z)" if adds else "M_LN2_F * (m + log2(z))"});
    }
    barrier(CLK_LOCAL_MEM_FENCE);
${parts.store("out", "sum", DV, "dv", [f"factor_of[y + {16 * r}u]" for r in range(R)], "queries", "h")}\
}
