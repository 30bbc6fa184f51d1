## cpu_forward: out = softmax(scale * q k' + mask) v on a CPU, in one pass over the keys.
##
##   queries | BQ |           a work-item has BQ queries of a head, in the lanes of vectors
##   keys    | BK | BK | ...  scores of BK keys at a time: s' = k q', then their exponentials, then out' += v' p'
##
## Each query has a maximum m and a sum z of exp(score - m).  If the maximum grows, out is scaled.  A work-item stores
## its rows, and log(z) + m of each.  Launch: groups of one, `blocks` for each head and batch.  ' is the transpose.
##
## DQ, DV: extents of rows of q and of v in private arrays; dq, dv: in the arguments.  TR: rows of a register tile.
## BQ = NV * V lanes.  direct: keys and values are read in place, else from tiles kt, vt of numbers of type real.
## qt, ot, st: q, out and scores, transposed: ot[d * BQ + l] is of query first + l.  i: query; n: key; m{v}, z{v}:
## vector v.  EXP: e^x.  Other parameters: see forward.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="exponential" file="/common/exponential.cl.mako"/>
<%namespace name="products" file="/attention/_cpu_products.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    T, I, aligned = vector(real, V), vector("long" if real == "double" else "int", V), "__attribute__((aligned(64)))"
%>
% for e in dict.fromkeys([elem, wide, *([mask] if mask else [])]):
${element.scalar(e)}
% endfor
${dropout.define(real) if drops else ""}\
${exponential.define(real, V)}
${products.define("__global " if direct else "")}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("attention_forward")}
{
    ${real} qt[${DQ * BQ}] ${aligned}, ot[${DV * BQ}] ${aligned}, st[${BK * BQ}] ${aligned};
    ${"" if direct else f"{real} kt[{BK * DQ}] {aligned}, vt[{BK * DV}] {aligned};"}
    const uint block = get_group_id(0) % blocks, pair = get_group_id(0) / blocks;
    const uint b = pair / heads, h = pair % heads, first = block * ${BQ}u;
    __global const ${elem.name}_t *q = q_data + (q_offset + b * q_batch + h * q_head);
    __global const ${elem.name}_t *k_rows = k_data + (k_offset + b * k_batch + h / shared * k_head);
    __global const ${elem.name}_t *v_rows = v_data + (v_offset + b * v_batch + h / shared * v_head);
${products.transposed("qt", "q", "q", "queries", "dq", "scale * ")}\
    for (uint index = 0; index < ${DV * BQ}u; index++) ot[index] = 0;
    ${T} ${", ".join(f"m{v} = -{'DBL' if real == 'double' else 'FLT'}_MAX, z{v} = 0" for v in range(NV))};
    const uint end = ${f"min(keys, first + {BQ}u)" if causal else "keys"};
    for (uint k0 = 0; k0 < end; k0 += ${BK}u) {
        const int count = min(${BK}u, end - k0);  // keys of this step
% for name, extent, size in (("k", DQ, "dq"), ("v", DV, "dv")):
        __global const ${elem.name}_t *${name} = ${name}_rows + k0 * ${name}_row;
% if not direct:
        for (int j = 0; j < count; j++)
            for (uint d = 0; d < ${size}; d++)
                ${name}t[j * ${extent} + d] = ${elem.name}_load(${name} + (j * ${name}_row + d * ${name}_step));
% endif
% endfor
        for (int j = 0; j < count; j += ${TR})
            products(${"k + j * k_row, k_row, k_step" if direct else f"kt + j * {DQ}, {DQ}, 1"}, count - j,
                qt, dq, st + j * ${BQ}, 0);
% if mask:
        for (uint l = 0; l < ${BQ}u; l++) {
            const uint i = min(first + l, queries - 1);
            __global const ${mask.name}_t *row = mask_data
                + (mask_offset + b * mask_batch + h * mask_head + i * mask_row + k0 * mask_step);
            for (int j = 0; j < count; j++) {
                const ${mask.value} of_mask = ${mask.name}_load(row + j * mask_step);
                ${real} *s = st + (j * ${BQ} + l);
                *s = ${f"of_mask ? *s : -({real})INFINITY" if mask.boolean else "*s + of_mask"};
            }
        }
% endif
        ${T} ${", ".join(f"top{v} = m{v}" for v in range(NV))};
        for (int j = 0; j < count; j++) {
            ${T} *s = (${T} *)(st + j * ${BQ});
% for v in range(NV):
% if causal:
            const ${I} i${v} = (${I})(first + ${v * V}) + (${I})(${", ".join(map(str, range(V)))});
            s[${v}] = i${v} < (${I})(k0 + j) ? (${T})(-(${real})INFINITY) : s[${v}];
% endif
            top${v} = s[${v}] > top${v} ? s[${v}] : top${v};
% endfor
        }
% for v in range(NV):
        const ${T} shrink${v} = EXP(m${v} - top${v});
        z${v} *= shrink${v};
        m${v} = top${v};
% endfor
        for (int j = 0; j < count; j++) {
            ${T} *s = (${T} *)(st + j * ${BQ});
% for v in range(NV):
            s[${v}] = EXP(s[${v}] - m${v});
            z${v} += s[${v}];
% endfor
        }
% if drops:
        for (uint l = 0; l < ${BQ}u; l++)
            for (int j = 0; j < count; j++) {
                const uint i = first + l, n = k0 + j;
                st[j * ${BQ} + l] *= ${dropout.factor()};
            }
% endif
        for (uint d = 0; d < dv; d++) {
            ${T} *o = (${T} *)(ot + d * ${BQ}u);
            ${" ".join(f"o[{v}] *= shrink{v};" for v in range(NV))}
        }
        for (uint d = 0; d < dv; d += ${TR})
            products(${"v + d * v_step, v_step, v_row" if direct else f"vt + d, 1, {DV}"}, dv - d,
                st, count, ot + d * ${BQ}, 1);
    }
    ${real} sum[${BQ}] ${aligned}, maxima[${BQ}] ${aligned};
% for v in range(NV):
    *(${T} *)(sum + ${v * V}) = z${v};
    *(${T} *)(maxima + ${v * V}) = m${v};
% endfor
    for (uint l = 0; l < ${BQ}u && first + l < queries; l++) {
        const uint i = first + l;
        __global ${elem.name}_t *row = out_data + (out_offset + b * out_batch + h * out_head + i * out_row);
        const ${real} inverse = sum[l] > 0 ? 1 / sum[l] : sum[l];  // 0 if the query sees no key; NaN remains
        ${products.no_vectorize()}\
        for (uint d = 0; d < dv; d++) ${elem.name}_store(row + d * out_step, ot[d * ${BQ} + l] * inverse);
        ${wide.name}_store(sums_data + (sums_offset + b * sums_batch + h * sums_head + i * sums_row),
            maxima[l] + log(sum[l]));
    }
}
