## Parts of mma and wgmma, for the rows (queries) of a warp: exponentials of scores, running maxima and sums, stores.
## Of the warp's blocks of 16 rows a lane (g = lane / 4, c = lane % 4) has row g + 8 half of each block, with
##   m, z{block}_{half}                the row's maximum so far; this lane's quarter of the sum of its exponentials
##   s{block}_{j}_{2 half + e}         of a tile's scores those of keys k0 + 8 j + 2 c + e
##   o{block}_{j}_{2 half + e}         of the results the columns 8 j + 2 c + e
## In scope at the caller: number, t: the group, and the local id; first_of_warp, the warp's first row; k0, the tile's
## first key; b, h: batch and head.  In the text i is a query and n a key.  factor: scale * log2(e), or scale with an
## additive mask.  shift: SHIFT of mma.
<%!
lane_rows = lambda blocks: [(block, half) for block in range(blocks) for half in range(2)]
%>
## Replace the scores s of a tile by 2^(log2(e) (s - m) + shift).  If a maximum m grows (to `top`), the sums z are
## scaled by the factor `shrink`, by which scale_results scales o as well.
<%def name="exponentials(policy, mask, causal, shift)"><%
TK = policy.keys
factor, adds = "1.0f" if mask else "factor", mask and not mask.boolean
%>\
${hide(policy, mask, causal)}\
% for block, half in lane_rows(policy.blocks):
<% row, scores = f"{block}_{half}", [f"s{block}_{j}_{2 * half + e}" for j in range(TK // 8) for e in range(2)] %>\
            float top${row} = ${scores[0]};
% for score in scores[1:]:
            top${row} = fmax(top${row}, ${score});
% endfor
            top${row} = fmax(top${row}, across(top${row}, 1));
            top${row} = fmax(m${row}, ${factor} * fmax(top${row}, across(top${row}, 2)));
            const float shrink${row} = power_of_two(${"M_LOG2E_F * " if adds else ""}(m${row} - top${row}));
% if not adds:
            const float add${row} = ${shift} - top${row};
% endif
            m${row} = top${row};
            z${row} *= shrink${row};
% for score in scores:
<% exponent = f"fma({score} - top{row}, M_LOG2E_F, {shift})" if adds else f"fma({score}, {factor}, add{row})" %>\
            ${score} = power_of_two(${exponent});
            z${row} += ${score};
% endfor
% endfor
</%def>

<%def name="scale_results(policy, DV)"><% places = [(j, e) for j in range(DV // 8) for e in range(2)] %>\
% for (block, half), (j, e) in ((row, place) for row in lane_rows(policy.blocks) for place in places):
            o${block}_${j}_${2 * half + e} *= shrink${block}_${half};
% endfor
</%def>

## Declare (or with type "" assign) the exponentials, rounded to 16 bits, in pairs as operand A of the product with v:
## two adjacent blocks of 8 keys, j and j + 1, are one operand of four registers r (_products).
<%def name="operands(policy, type)"><% B, TK = policy.blocks, policy.keys %>\
% for block, j, r in ((block, j, r) for block in range(B) for j in range(0, TK // 8, 2) for r in range(4)):
<% pair = f"s{block}_{j + r // 2}_{r % 2 * 2}, s{block}_{j + r // 2}_{r % 2 * 2 + 1}" %>\
            ${type}p${block}_${j}_${r} = rounded_pair(${pair});
% endfor
</%def>

## Set the scores of keys that are not seen to minus infinity.  With a mask, multiply the scores by the factor.
## all_seen: the number of first keys that all queries of the warp see.
<%def name="hide(policy, mask, causal)">\
<% all_seen = "min(keys, first_of_warp + 1u)" if causal else "keys" %>\
            ${"" if mask else f"if (k0 + {policy.keys}u > {all_seen}) "}{
% for block, half in lane_rows(policy.blocks):
                {
% if mask or causal:
                    const uint i = first_of_warp + ${16 * block + 8 * half}u + g;
% endif
% if mask:
                    __global const ${mask.name}_t *mask_line = mask_data
                        + (mask_offset + b * mask_batch + h * mask_head + min(i, queries - 1u) * mask_row);
% endif
% for j, e in ((j, e) for j in range(policy.keys // 8) for e in range(2)):
                    HIDE(s${block}_${j}_${2 * half + e}, k0 + ${8 * j + e}u + 2u * c);
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
    const ${mask.value} of_mask = is_seen ? ${mask.name}_load(mask_line + n * mask_step) : 0; \
    s = ${f"is_seen && of_mask ? factor * s" if mask.boolean else "is_seen ? fma(s, factor, of_mask)"} : -INFINITY; \
    } while (0)
% else:
#define HIDE(s, key) s = (key) < keys${" && (key) <= i" if causal else ""} ? s : -INFINITY
% endif
</%def>

## Store the rows of out, and the natural logarithm of the sum of each row's exponentials.  adds: whether m is the
## maximum of scores, because a mask adds numbers to them, and not of scores times log2(e).
<%def name="store(policy, DV, shift, adds)">\
% for block, half in lane_rows(policy.blocks):
<% if_natural = f"m{block}_{half} + M_LN2_F * (binary_logarithm(z) - {shift})" %>\
<% if_binary = f"M_LN2_F * (m{block}_{half} - {shift} + binary_logarithm(z))" %>\
    {
        const uint i = first_of_warp + ${16 * block + 8 * half}u + g;
        float z = z${block}_${half} + across(z${block}_${half}, 1);  // over the four lanes of the row
        z += across(z, 2);
        if (i < queries) {
            __global ushort *row = out_data + (out_offset + b * out_batch + h * out_head + i * out_row) + 2u * c;
            const float inverse = z > 0 ? 1 / z : z;  // 0 if the query sees no key; NaN remains
% for j in range(DV // 8):
            if (${8 * j}u < dv) *(__global uint *)(row + ${8 * j}) =
                rounded_pair(o${block}_${j}_${2 * half} * inverse, o${block}_${j}_${2 * half + 1} * inverse);
% endfor
            if (c == 0) ${wide.name}_store(sums_data + (sums_offset + b * sums_batch + h * sums_head + i * sums_row),
                ${if_natural if adds else if_binary});
        }
    }
% endfor
</%def>
