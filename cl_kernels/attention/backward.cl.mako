## backward: the gradients of attention by the queries (side "q"), or by the keys and values (side "k").  For GPUs.
##
##   p = exp(scale * q k' + mask - sums)    probabilities, computed again; sums: log-sum-exp of each query's scores
##   ds = p * (grad v' - delta)             gradients of scores; delta = sum(grad * y) of each query; y: the result
##   side "q":   dq = scale * ds k          a work-item has a query, in a loop over the keys; it also stores delta
##   side "k":   dk = scale * ds' q,  dv = p' grad    a work-item has a key, in a loop over the queries of the `shared`
##                                          heads that share the key's head; it reads delta of side "q"
## With dropout, p is multiplied by a factor of 0 or 1 / (1 - rate) before it is multiplied by v (_dropout).
##
##   own rows (of this side)    | G work-items of one row each |   each keeps its row and its sums in registers
##   others (of the other side) | TK | TK | TK | ...               tiles of both arrays, in local memory
## Each side has two arrays: the near one, q or k, with rows of DQ elements, and the far one, grad or v, with DV.
## The order of sums is fixed.  A work-item stores its own row.  Launch: one dimension; `blocks` groups of G work-items
## for each head (of keys, for side "k") of each batch.  dx, dv: sums of dq or dk, and of dv.  i: query; n: key; b, h:
## batch, head; T: vector of V elements, c of a row.  Other parameters: see forward.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="tiles_of" file="/attention/_tiles.cl.mako"/>
<%namespace name="shift" file="/attention/_shift.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    T, by_query = vector(real, V), side == "q"
    outputs = (("dq", "scale * dx", DQ),) if by_query else (("dk", "scale * dx", DQ), ("dv", "dv", DV))
    of_queries = ("q", "dq_size", DQ), ("grad", "dv_size", DV)
    of_keys = ("k", "dq_size", DQ), ("v", "dv_size", DV)
    far_products = " + ".join(f"far_dot{component(V, c)}" for c in range(V))
    row_arrays, tile_arrays = (of_queries, of_keys) if by_query else (of_keys, of_queries)
%>
% for e in dict.fromkeys([elem, wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${dropout.define(real) if drops else ""}\
${shift.define(real)}\

__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("attention_backward")}
{
% for name, _, extent in tile_arrays:
    __local ${real} ${name}t[${TK * extent}] __attribute__((aligned(64)));
% endfor
    const uint lid = get_local_id(0), block = get_group_id(0) % blocks, pair = get_group_id(0) / blocks;
    const uint own_heads = ${"heads" if by_query else "heads / shared"}, rows = ${"queries" if by_query else "keys"};
    const uint others = ${"keys" if by_query else "queries"};
    const uint b = pair / own_heads, own_head = pair % own_heads;
    const uint first = block * ${G}u + lid, own_row = min(first, rows - 1u);
% for name, size, extent in row_arrays:
${tiles_of.load_own_row(T, name, size, extent)}\
% endfor
    ${T} dx[${DQ // V}];
#pragma unroll
    for (uint c = 0; c < ${DQ // V}u; ++c) dx[c] = 0;
% if by_query:
    ${real} delta = 0;
    {
        __global const ${elem.name}_t *row = y_data + (y_offset + b * y_batch + own_head * y_head + own_row * y_row);
% for d in range(DV):
        if (${d}u < dv_size) delta += grad[${d // V}]${component(V, d % V)} * ${elem.name}_load(row + ${d} * y_step);
% endfor
    }
    if (first < rows) ${wide.name}_store(delta_data
        + (delta_offset + b * delta_batch + own_head * delta_head + own_row * delta_row), delta);
% else:
    ${T} dv[${DV // V}];
#pragma unroll
    for (uint c = 0; c < ${DV // V}u; ++c) dv[c] = 0;
% endif
    for (uint part = 0; part < ${"1" if by_query else "shared"}; ++part) {
        const uint h = ${"own_head" if by_query else "own_head * shared + part"};
        for (uint t0 = 0; t0 < others; t0 += ${TK}u) {
${tiles_of.load(tile_arrays, 'own_head / shared' if by_query else 'h')}\
            for (uint j = 0; j < ${TK}u && t0 + j < others; ++j) {
                const uint i = ${"own_row" if by_query else "t0 + j"}, n = ${"t0 + j" if by_query else "own_row"};
                (void)n;  // only masks need it
                const bool is_seen = ${"n <= i" if causal else "true"};
% if mask:
                const ${mask.value} of_mask = ${mask.name}_load(mask_data
                    + (mask_offset + b * mask_batch + h * mask_head + i * mask_row + n * mask_step));
% endif
                if (!is_seen${" || !of_mask" if mask and mask.boolean else ""}) continue;
                const __local ${T} *near_row = (const __local ${T} *)(${tile_arrays[0][0]}t + j * ${DQ}u);
                const __local ${T} *far_row = (const __local ${T} *)(${tile_arrays[1][0]}t + j * ${DV}u);
                ${T} dot = 0, far_dot = 0;
#pragma unroll
                for (uint c = 0; c < ${DQ // V}u; ++c) dot += ${row_arrays[0][0]}[c] * near_row[c];
#pragma unroll
                for (uint c = 0; c < ${DV // V}u; ++c) far_dot += ${row_arrays[1][0]}[c] * far_row[c];
                const ${real} score = scale * (${" + ".join(f"dot{component(V, c)}" for c in range(V))})
                    ${"+ of_mask" if mask and not mask.boolean else ""};
                const long sums_at = b * sums_batch + h * sums_head + i * sums_row;
                const ${real} p = exp(score - shift_of(${wide.name}_load(sums_data + sums_offset + sums_at)));
% if not by_query:
                const long delta_at = delta_offset + b * delta_batch + h * delta_head + i * delta_row;
                const ${real} delta = ${wide.name}_load(delta_data + delta_at);
% endif
% if drops:
                const ${real} factor = ${dropout.factor()};
% endif
                const ${real} ds = p * (${f"factor * ({far_products})" if drops else far_products} - delta);
#pragma unroll
                for (uint c = 0; c < ${DQ // V}u; ++c) dx[c] += ds * near_row[c];
% if not by_query:
#pragma unroll
                for (uint c = 0; c < ${DV // V}u; ++c) dv[c] += p ${"* factor " if drops else ""}* far_row[c];
% endif
            }
        }
    }
    if (first >= rows) return;
% for name, value, extent in outputs:
    {
        __global ${elem.name}_t *row = ${name}_data
            + (${name}_offset + b * ${name}_batch + own_head * ${name}_head + own_row * ${name}_row);
% for d in range(extent):
        if (${d}u < ${"dv_size" if name == "dv" else "dq_size"}) ${elem.name}_store(row + ${d} * ${name}_step,
            ${value}[${d // V}]${component(V, d % V)});
% endfor
    }
% endfor
}
