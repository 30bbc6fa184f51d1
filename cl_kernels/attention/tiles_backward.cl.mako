## backward (see there) in register tiles, for float32 arithmetic on GPUs.  A pair is an own row and a row of the other
## side.  Each tile of pairs has three steps: the products s = q k' and dp = grad v'; p and ds, in place of s and dp;
## and their products with the other side's rows, which are added to the results.
##
##   own rows   | TM |                 local memory: TM own rows and TN others of both arrays, and the pairs of a tile
##   others     | TN | TN | ...        16 x 16 work-items
##
## Work-item (y, x) has the own rows y + 16 r.  Of the pairs it has those with the other rows x + 16 c; of the results,
## the columns 4 x + 64 c + 0 .. 3.
## dx, dv: sums of dq or dk, and of dv.  m_of, delta_of: the log-sum-exp and delta of each query of the tile (or own
## one).  part: for side "k", the number among the `shared` heads of queries that have the own head of keys.
## Rows in local memory are 4 elements longer, those of pairs 8, so that adjacent rows are in different banks.  The
## order of sums is fixed.  DQ, DV: extents of rows, rounded up to 64.  row_arrays, tile_arrays: see mma_backward.
## Other parameters and the launch: see backward; a group has 256 work-items and TM own rows.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="parts" file="/attention/_register_tiles.cl.mako"/>
<%namespace name="shift" file="/attention/_shift.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    T, by_query, R, C = vector(real, 4), side == "q", TM // 16, TN // 16
    # A result: its name, the name of its sums, its columns, the number of the other side's array in the product.
    outputs = (("dq", "dx", DQ, 0),) if by_query else (("dv", "dv", DV, 1), ("dk", "dx", DQ, 0))
    cells = [(r, c) for r in range(R) for c in range(C)]  # pairs of a work-item
%>
% for e in dict.fromkeys([elem, wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${dropout.define(real) if drops else ""}\
${shift.define(real)}\

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void ${kernel("attention_backward")}
{
% for arrays, count in ((row_arrays, TM), (tile_arrays, TN)):
% for name, _, D in arrays:
    __local ${real} ${name}_tile[${count * (D + 4)}] __attribute__((aligned(16)));
% endfor
% endfor
    __local ${real} pairs[${TM * (TN + 8)}] __attribute__((aligned(16)));
    __local ${real} m_of[${TM if by_query else TN}], delta_of[${TM if by_query else TN}];
    // 32 adjacent work-items are 4 x 8 in (y, x), so that they read few rows of both tiles.
    const uint t = get_local_id(0), x = t % 8u + t / 32u % 2u * 8u, y = t / 8u % 4u + t / 64u * 4u;
    const uint number = get_group_id(0) % blocks, head = get_group_id(0) / blocks;
    const uint own_heads = ${"heads" if by_query else "heads / shared"}, rows = ${"queries" if by_query else "keys"};
    const uint others = ${"keys" if by_query else "queries"}, b = head / own_heads, own_head = head % own_heads;
    const uint first = ${"(blocks - 1u - number)" if causal and by_query else "number"} * ${TM}u;
    const uint begin = ${f"first / {TN}u * {TN}u" if causal and not by_query else "0"};
    const uint end = ${f"min(others, first + {TM}u)" if causal and by_query else "others"};
% for array in row_arrays:
${parts.load(array, "first", "rows", "own_head", TM)}\
% endfor
% if by_query:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < ${TM}u) {
        const uint i = first + t;
        ${real} m = INFINITY, delta = 0;
        if (i < queries) {
            __global const ${elem.name}_t *line = y_data + (y_offset + b * y_batch + own_head * y_head + i * y_row);
            for (uint d = 0; d < dv_size; ++d)
                delta += grad_tile[t * ${DV + 4}u + d] * ${elem.name}_load(line + d * y_step);
            m = shift_of(${wide.name}_load(
                sums_data + (sums_offset + b * sums_batch + own_head * sums_head + i * sums_row)));
            ${wide.name}_store(delta_data
                + (delta_offset + b * delta_batch + own_head * delta_head + i * delta_row), delta);
        }
        m_of[t] = m;
        delta_of[t] = delta;
    }
% endif
% for _, sums, D, _ in outputs:
    ${T} ${", ".join(f"{sums}{r}_{c} = 0" for r in range(R) for c in range(D // 64))};
% endfor
    for (uint part = 0; part < ${"1" if by_query else "shared"}; ++part) {
        const uint h = ${"own_head" if by_query else "own_head * shared + part"};
        for (uint t0 = begin; t0 < end; t0 += ${TN}u) {
            barrier(CLK_LOCAL_MEM_FENCE);  // the last tile is no longer read
% for array in tile_arrays:
${parts.load(array, "t0", "others", "h / shared" if by_query else "h", TN)}\
% endfor
% if not by_query:
            if (t < ${TN}u) {
                const uint i = t0 + t;
                ${real} m = INFINITY, delta = 0;
                if (i < queries) {
                    m = shift_of(${wide.name}_load(
                        sums_data + (sums_offset + b * sums_batch + h * sums_head + i * sums_row)));
                    delta = ${wide.name}_load(delta_data
                        + (delta_offset + b * delta_batch + h * delta_head + i * delta_row));
                }
                m_of[t] = m;
                delta_of[t] = delta;
            }
% endif
            barrier(CLK_LOCAL_MEM_FENCE);
            ${real} ${", ".join(f"{pair_sum}{r}_{c} = 0" for pair_sum in ("s", "dp") for r, c in cells)};
% for pair_sum, own, other in zip(("s", "dp"), row_arrays, tile_arrays):
${parts.multiply(pair_sum, own, other)}\
% endfor
% for r, c in cells:
${parts.score(r, c)}\
${parts.probability(r, c)}\
% endfor
% for at, (name, sums, D, source) in enumerate(outputs):
% if at:
            barrier(CLK_LOCAL_MEM_FENCE);  // the other pairs are no longer read
% endif
% for r, c in cells:
            pairs[(y + ${16 * r}u) * ${TN + 8}u + x + ${16 * c}u] = ${"dp" if sums == "dx" else "s"}${r}_${c};
% endfor
            barrier(CLK_LOCAL_MEM_FENCE);
${parts.add(sums, D, tile_arrays[source][0])}\
% endfor
        }
    }
% for name, sums, D, _ in outputs:
<% extent, factor = ("dv_size", "1") if name == "dv" else ("dq_size", "scale") %>\
${parts.store(name, sums, D, extent, [factor] * R)}\
% endfor
}
