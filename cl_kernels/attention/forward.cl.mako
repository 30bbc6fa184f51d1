## forward: out = softmax(scale * q k' + mask) v for each head of each batch, in one pass over the keys.  For GPUs.
##
##   queries | G work-items of one row each |        each keeps its rows of q, and of out, in registers
##   keys    | TK | TK | TK | ...                    tiles of k and v, in local memory
##           | 8 | 8 |                               scores of 8 keys at a time
##
## A row has a maximum m and a sum z of exp(score - m).  If the maximum grows, out is scaled.  A work-item stores its
## row, and log(z) + m to `sums`.  `shared` heads of queries have one head of keys.  Launch: one dimension; `blocks`
## groups of G work-items for each head of each batch.  Arrays have any strides: _batch, _head, _row, _step (along a
## row).
##
## DQ, DV: extents of a row of q and of v, rounded up; elements beyond are 0; dq, dv: the true ones.  V: elements of a
## vector (T).  elem, wide: the Element of arrays, and of `sums`; real: the type of arithmetic.  mask: the Element of
## the mask, which is added to scores, or boolean (true: seen), or None.  causal: query i sees keys up to i.  drops:
## whether there is dropout.  b: batch; h: head of the queries; i: query; n: key; d: element of a row.  The argument
## X_offset is where an array begins, in elements; strides are in elements too.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    T = vector(real, V)
%>
% for e in dict.fromkeys([elem, wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${dropout.define(real) if drops else ""}\

__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("attention_forward")}
{
    __local ${real} k_tile[${TK * DQ}] __attribute__((aligned(64))), v_tile[${TK * DV}] __attribute__((aligned(64)));
    const uint lid = get_local_id(0), block = get_group_id(0) % blocks, pair = get_group_id(0) / blocks;
    const uint b = pair / heads, h = pair % heads;
    // Work-items beyond the last query compute that one again, and store nothing.
    const uint first = block * ${G}u + lid, i = min(first, queries - 1u);
    __global const ${elem.name}_t *k = k_data + (k_offset + b * k_batch + h / shared * k_head);
    __global const ${elem.name}_t *v = v_data + (v_offset + b * v_batch + h / shared * v_head);
    ${T} q[${DQ // V}], sum[${DV // V}];
    __global const ${elem.name}_t *q_at = q_data + (q_offset + b * q_batch + h * q_head + i * q_row);
#define Q(d) ((d) < dq ? ${elem.name}_load(q_at + (d) * q_step) : 0)
% for c in range(0, DQ, V):
    q[${c // V}] = scale * (${T})(${", ".join(f"Q({c + e}u)" for e in range(V))});
% endfor
#pragma unroll
    for (uint vec = 0; vec < ${DV // V}u; ++vec) sum[vec] = 0;
    ${real} m = -${"DBL" if real == "double" else "FLT"}_MAX, z = 0;
% if mask:
    __global const ${mask.name}_t *mask_at = mask_data + (mask_offset + b * mask_batch + h * mask_head + i * mask_row);
% endif
    const uint end = ${f"min(keys, (block + 1u) * {G}u)" if causal else "keys"};
    for (uint k0 = 0; k0 < end; k0 += ${TK}u) {
        barrier(CLK_LOCAL_MEM_FENCE);
% for name, extent, size in (("k", DQ, "dq"), ("v", DV, "dv")):
        for (uint index = lid; index < ${TK * extent}u; index += ${G}u) {
            const uint key = k0 + index / ${extent}u, d = index % ${extent}u;
            ${name}_tile[index] = key < keys && d < ${size}
                ? ${elem.name}_load(${name} + (key * ${name}_row + d * ${name}_step)) : 0;
        }
% endfor
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint part = 0; part < ${TK}u && k0 + part < end; part += 8) {
            ${real} s[8], largest = m;
#pragma unroll
            for (uint j = 0; j < 8; ++j) {
                const __local ${T} *row = (const __local ${T} *)(k_tile + (part + j) * ${DQ}u);
                ${T} dot = 0;
#pragma unroll
                for (uint vec = 0; vec < ${DQ // V}u; ++vec) dot += q[vec] * row[vec];
                s[j] = ${" + ".join(f"dot{component(V, c)}" for c in range(V))};
                const uint n = k0 + part + j;
                bool is_seen = n < end${" && n <= i" if causal else ""};
% if mask and mask.boolean:
                is_seen = is_seen && ${mask.name}_load(mask_at + n * mask_step);
% elif mask:
                if (is_seen) s[j] += ${mask.name}_load(mask_at + n * mask_step);
% endif
                s[j] = is_seen ? s[j] : -(${real})INFINITY;
                largest = fmax(largest, s[j]);
            }
            const ${real} shrink = exp(m - largest);
            m = largest;
            z *= shrink;
#pragma unroll
            for (uint vec = 0; vec < ${DV // V}u; ++vec) sum[vec] *= shrink;
#pragma unroll
            for (uint j = 0; j < 8; ++j) {
                const __local ${T} *row = (const __local ${T} *)(v_tile + (part + j) * ${DV}u);
                const ${real} p = exp(s[j] - largest);
                z += p;
% if drops:
                const uint n = k0 + part + j;
                const ${real} weight = p * ${dropout.factor()};
% endif
#pragma unroll
                for (uint vec = 0; vec < ${DV // V}u; ++vec) sum[vec] += ${"weight" if drops else "p"} * row[vec];
            }
        }
    }
    if (first >= queries) return;
    __global ${elem.name}_t *row = out_data + (out_offset + b * out_batch + h * out_head + i * out_row);
    const ${real} inverse = z > 0 ? 1 / z : z;  // 0 if the query sees no key; NaN remains
% for d in range(DV):
    if (${d}u < dv) ${elem.name}_store(row + ${d} * out_step, sum[${d // V}]${component(V, d % V)} * inverse);
% endfor
    ${wide.name}_store(sums_data + (sums_offset + b * sums_batch + h * sums_head + i * sums_row), m + log(z));
}
