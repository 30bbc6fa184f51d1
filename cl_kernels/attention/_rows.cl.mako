## The rows of a warp of mma and wgmma: exponentials of scores, running maxima and sums, stores.  Names as in mma; row
## g + 8 h of block i has the maximum m{i}_{h}, and z{i}_{h}, the lane's part of its sum.  Places of s and o: _products.
<%!
lane_rows = lambda blocks: [(i, h) for i in range(blocks) for h in range(2)]  # row g + 8 h of block i
%>

## Replace the scores s of a tile by 2^(log2(e) (s - m) + shift).  If a maximum m grows, the sums z are scaled by the
## factor `shrink`, by which scale_results scales o as well.
<%def name="powers(policy, mask, causal, shift)"><%
TK = policy.keys
factor, adds = "1.0f" if mask else "factor", mask and not mask.boolean
%>\
${hide(policy, mask, causal)}\
% for i, h in lane_rows(policy.blocks):
<% scores = [f"s{i}_{j}_{2 * h + e}" for j in range(TK // 8) for e in range(2)] %>\
            float top${i}_${h} = ${scores[0]};
% for x in scores[1:]:
            top${i}_${h} = fmax(top${i}_${h}, ${x});
% endfor
            top${i}_${h} = fmax(top${i}_${h}, across(top${i}_${h}, 1));
            top${i}_${h} = fmax(m${i}_${h}, ${factor} * fmax(top${i}_${h}, across(top${i}_${h}, 2)));
            const float shrink${i}_${h} = power_of_two(${"M_LOG2E_F * " if adds else ""}(m${i}_${h} - top${i}_${h}));
% if not adds:
            const float add${i}_${h} = ${shift} - top${i}_${h};
% endif
            m${i}_${h} = top${i}_${h};
            z${i}_${h} *= shrink${i}_${h};
% for x in scores:
<% exponent = f"fma({x} - top{i}_{h}, M_LOG2E_F, {shift})" if adds else f"fma({x}, {factor}, add{i}_{h})" %>\
            ${x} = power_of_two(${exponent});
            z${i}_${h} += ${x};
% endfor
% endfor
</%def>

<%def name="scale_results(policy, DV)">\
% for i, h in lane_rows(policy.blocks):
% for j, e in ((j, e) for j in range(DV // 8) for e in range(2)):
            o${i}_${j}_${2 * h + e} *= shrink${i}_${h};
% endfor
% endfor
</%def>

## Declare the exponentials, rounded to 16 bits, in pairs as operand A of the product with v.
<%def name="operands(policy, type)">\
% for i, j, r in ((i, j, r) for i in range(policy.blocks) for j in range(0, policy.keys // 8, 2) for r in range(4)):
<% pair = f"s{i}_{j + r // 2}_{r % 2 * 2}, s{i}_{j + r // 2}_{r % 2 * 2 + 1}" %>\
            ${type}p${i}_${j}_${r} = rounded_pair(${pair});
% endfor
</%def>

## Set the scores of keys that are not seen to minus infinity.  With a mask, multiply the scores by the factor.
<%def name="hide(policy, mask, causal)">\
% if mask:
            {
% else:
            if (k0 + ${policy.keys}u > ${"min(keys, first_of_warp + 1u)" if causal else "keys"}) {
% endif
% for i, h in lane_rows(policy.blocks):
                {
% if mask or causal:
                    const uint i = first_of_warp + ${16 * i + 8 * h}u + g;
% endif
% if mask:
                    __global const ${mask.name}_t *mask_line = mask_in
                        + (mask_offset + b * mask_batch + h * mask_head + min(i, queries - 1u) * mask_row);
% endif
% for j, e in ((j, e) for j in range(policy.keys // 8) for e in range(2)):
                    HIDE(s${i}_${j}_${2 * h + e}, k0 + ${8 * j + e}u + 2u * c);
% endfor
                }
% endfor
            }
</%def>

<%def name="define(policy, mask, causal)">
// Batch, head and rows of this work-item.  In causal attention the first groups have the last queries, with most keys.
#define LOCATE() do { \
    lane = t % 32u, g = lane / 4u, c = lane % 4u; \
    b = number / blocks / heads, h = number / blocks % heads; \
    first = ${"(blocks - 1u - number % blocks)" if causal else "number % blocks"} * ${policy.queries}u; \
    first_of_warp = first + t / 32u * ${16 * policy.blocks}u; \
    } while (0)
% if mask:
#define HIDE(s, key) do { \
    const uint n = key; \
    const bool is_seen = n < keys; \
    const ${mask.value} x = is_seen ? ${mask.name}_load(mask_line + n * mask_step) : 0; \
    s = ${f"is_seen && x ? factor * s" if mask.boolean else "is_seen ? fma(s, factor, x)"} : -INFINITY; \
    } while (0)
% else:
#define HIDE(s, key) s = (key) < keys${" && (key) <= i" if causal else ""} ? s : -INFINITY
% endif
</%def>

## Store the rows of out, and the natural logarithm of the sum of each row's exponentials.
<%def name="store(policy, DV, shift, adds)">\
% for i, h in lane_rows(policy.blocks):
<%
log_sum = f"m{i}_{h} + M_LN2_F * (binary_logarithm(z) - {shift})"
log_sum = log_sum if adds else f"M_LN2_F * (m{i}_{h} - {shift} + binary_logarithm(z))"
%>\
    {
        const uint i = first_of_warp + ${16 * i + 8 * h}u + g;
        float z = z${i}_${h} + across(z${i}_${h}, 1);
        z += across(z, 2);
        if (i < queries) {
            __global ushort *row = out_in + (out_offset + b * out_batch + h * out_head + i * out_row) + 2u * c;
            const float inverse = z > 0 ? 1 / z : z;  // 0 if the query sees no key; NaN remains
% for j in range(DV // 8):
            if (${8 * j}u < dv) *(__global uint *)(row + ${8 * j}) =
                rounded_pair(o${i}_${j}_${2 * h} * inverse, o${i}_${j}_${2 * h + 1} * inverse);
% endfor
            if (c == 0) ${wide.name}_store(sums_in + (sums_offset + b * sums_batch + h * sums_head + i * sums_row),
                ${log_sum});
        }
    }
% endfor
</%def>
