## cpu_backward: the gradients of attention on a CPU, for the queries (side "q") or for the keys and values (side "k").
##
##   p = exp(scale * q k' + mask - sums)    the probabilities, computed again; sums: the log-sum-exp of each query
##   ds = p * (f * grad v' - delta)         delta = sum(grad * y) of each query; y: the result of forward
##   side "q":   dq = scale * ds k          a work-item has BQ queries, in a loop over the keys; it also stores delta
##   side "k":   dk = scale * ds' q,  dv = (f * p)' grad   a work-item has BQ keys, in a loop over the queries of all
##                                          heads that share them; it reads delta of side "q"
## f is 1; with dropout it is 0 or 1 / (1 - rate) (_dropout).  ' is the transpose.
##   own rows   | BQ |            in the lanes of vectors: "near" rows (of q or k), and "far" rows (of grad or v)
##   others     | BK | BK | ...   BK rows of the other side at a time: both products, p and ds, then the sums
##
## A work-item stores its own rows, added in a fixed order.  Launch: `blocks` groups of one for each head and batch.
## BQ, BK: rows of a work-item, and of a step.  TR: rows of a register tile.  DQ, DV, direct: see cpu_forward; others:
## see forward.  b: batch; h: head of the queries; i: query; n: key.  Private arrays are transposed: NAME[d * BQ + l]
## belongs to own row first + l.  near_own, far_own: own rows; dxt, dvt: sums of dq or dk, and of dv.  st, pt: q k' and
## grad v' of a block of pairs, then ds and p f (_cpu_probabilities).
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="exponential" file="/common/exponential.cl.mako"/>
<%namespace name="probabilities" file="/attention/_cpu_probabilities.cl.mako"/>
<%namespace name="products" file="/attention/_cpu_products.cl.mako"/>
<%namespace name="shift" file="/attention/_shift.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    by_query, aligned = side == "q", "__attribute__((aligned(64)))"
    # An array of rows: name, extent at run time, extent in private memory, near or far.
    of_queries = ("q", "dq_size", DQ, "near"), ("grad", "dv_size", DV, "far")
    of_keys = ("k", "dq_size", DQ, "near"), ("v", "dv_size", DV, "far")
    own, other = (of_queries, of_keys) if by_query else (of_keys, of_queries)
    # A result: name, factor, array in which it is added, near or far.
    outputs = [("dq" if by_query else "dk", "scale * ", "dxt", "near"), ("dv", "", "dvt", "far")][: 2 - by_query]
    sizes = {"near": ("dq_size", DQ), "far": ("dv_size", DV)}
%>
% for e in dict.fromkeys([elem, wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${dropout.define(real) if drops else ""}${shift.define(real)}\
${exponential.define(real, V)}
${products.define("__global " if direct else "")}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("attention_backward")}
{
% for array, (_, extent) in sizes.items():
    ${real} ${array}_own[${extent * BQ}] ${aligned}${"" if direct else f", {array}_tile[{BK * extent}] {aligned}"};
% endfor
    ${real} st[${BK * BQ}] ${aligned}, pt[${BK * BQ}] ${aligned};
% for _, _, added, array in outputs:
    ${real} ${added}[${sizes[array][1] * BQ}] ${aligned};
    for (uint index = 0; index < ${sizes[array][1] * BQ}u; index++) ${added}[index] = 0;
% endfor
    const uint block = get_group_id(0) % blocks, pair = get_group_id(0) / blocks, first = block * ${BQ}u;
    const uint own_heads = ${"heads" if by_query else "heads / shared"}, rows = ${"queries" if by_query else "keys"};
    const uint b = pair / own_heads, own_head = pair % own_heads;
% for name, size, _, array in own:
    __global const ${elem.name}_t *${name} = ${name}_data
        + (${name}_offset + b * ${name}_batch + own_head * ${name}_head);
${products.transposed(f"{array}_own", name, name, "rows", size)}\
% endfor
% if by_query:
    ${real} delta[${BQ}] ${aligned}, sums[${BQ}] ${aligned};
    for (uint l = 0; l < ${BQ}u; l++) {
        const uint i = min(first + l, rows - 1);
        __global const ${elem.name}_t *y = y_data + (y_offset + b * y_batch + own_head * y_head + i * y_row);
        ${real} sum = 0;
        ${products.no_vectorize()}\
        for (uint d = 0; d < dv_size; d++) sum += far_own[d * ${BQ} + l] * ${elem.name}_load(y + d * y_step);
        delta[l] = sum;
        sums[l] = shift_of(${wide.name}_load(
            sums_data + (sums_offset + b * sums_batch + own_head * sums_head + i * sums_row)));
        if (first + l < rows) ${wide.name}_store(delta_data
            + (delta_offset + b * delta_batch + own_head * delta_head + i * delta_row), sum);
    }
% endif
    for (uint part = 0; part < ${"1" if by_query else "shared"}; ++part) {
        const uint h = ${"own_head" if by_query else "own_head * shared + part"};
        (void)h;  // only masks need it
% for name, _, _, array in other:
        __global const ${elem.name}_t *${array}_rows = ${name}_data
            + (${name}_offset + b * ${name}_batch + ${"own_head / shared" if by_query else "h"} * ${name}_head);
% endfor
        const uint end = ${("min(keys, first + %du)" % BQ if causal else "keys") if by_query else "queries"};
        for (uint t0 = ${f"first / {BK}u * {BK}u" if causal and not by_query else "0"}; t0 < end; t0 += ${BK}u) {
            const int count = min(${BK}u, end - t0);  // rows of this step
% for name, size, extent, array in other:
% if direct:
            __global const ${real} *${array} = ${array}_rows + t0 * ${name}_row;
            const long ${array}_row = ${name}_row, ${array}_step = ${name}_step;
% else:
            ${real} *${array} = ${array}_tile;
            const long ${array}_row = ${extent}, ${array}_step = 1;
            for (int j = 0; j < count; j++)
                for (uint d = 0; d < ${size}; d++) ${array}[j * ${extent} + d]
                    = ${elem.name}_load(${array}_rows + ((t0 + j) * ${name}_row + d * ${name}_step));
% endif
% endfor
            for (int j = 0; j < count; j += ${TR}) {
                products(near + j * near_row, near_row, near_step, count - j, near_own, dq_size, st + j * ${BQ}, 0);
                products(far + j * far_row, far_row, far_step, count - j, far_own, dv_size, pt + j * ${BQ}, 0);
            }
            for (int t = 0; t < count; t++) {
${probabilities.row(by_query)}\
            }
% for _, _, added, array in outputs:
            for (uint d = 0; d < ${sizes[array][0]}; d += ${TR})
                products(${array} + d * ${array}_step, ${array}_step, ${array}_row, ${sizes[array][0]} - d,
                    ${"st" if array == "near" else "pt"}, count, ${added} + d * ${BQ}, 1);
% endfor
        }
    }
    for (uint l = 0; l < ${BQ}u && first + l < rows; l++) {
% for name, factor, added, array in outputs:
        __global ${elem.name}_t *${name} = ${name}_data
            + (${name}_offset + b * ${name}_batch + own_head * ${name}_head + (first + l) * ${name}_row);
        ${products.no_vectorize()}\
        for (uint d = 0; d < ${sizes[array][0]}; d++)
            ${elem.name}_store(${name} + d * ${name}_step, ${factor}${added}[d * ${BQ} + l]);
% endfor
    }
}
