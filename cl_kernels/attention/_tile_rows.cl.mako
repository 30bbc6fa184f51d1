## A part of tiles: the softmax of a tile of scores.  W = 256 / TM work-items share the row of a query, i; work-item t
## has every W-th vector of 4 scores of row t / W, from vector t % W on.  vectors: how many it has.  In scope there:
## scores, the work-item's first vector in local memory; first, t0: the group's first query and the tile's first key;
## end: the end of the keys; m, z: the row's running maximum, and this work-item's part of its sum; factor: of all
## scores.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%!
elements = lambda vectors: [(v, e) for v in range(vectors) for e in range(4)]  # element e of vector v
%>

## Declare n, the key of element e of a work-item's vector v.
<%def name="key(v, e, W)">const uint n = t0 + ${4 * v * W + e}u + t % ${W}u * 4u;</%def>

## Load the scores times `factor`, add the mask, and set scores of keys that are not seen to minus infinity.  `largest`
## becomes the maximum of m, the maximum of earlier tiles, and of these scores.
<%def name="largest(vectors, W)"><% T = vector(real, 4) %>\
        ${T} score[${vectors}];
% for v in range(vectors):
        score[${v}] = factor * scores[${v * W}];
% endfor
        if (t0 + ${TN}u > ${"min(end, first + 1u)" if causal else "end"}) {
% for v, e in elements(vectors):
            {
                ${key(v, e, W)}
                score[${v}].s${e} = n < end${" && n <= i" if causal else ""} ? score[${v}].s${e} : -INFINITY;
            }
% endfor
        }
% for v, e in elements(vectors) if mask else ():
        {
            ${key(v, e, W)}
            const ${mask.value} of_mask = n < end ? ${mask.name}_load(mask_row_data + n * mask_step) : 0;
% if mask.boolean:
            score[${v}].s${e} = of_mask ? score[${v}].s${e} : -INFINITY;
% else:
            score[${v}].s${e} += of_mask;
% endif
        }
% endfor
        ${real} largest = m;
% for v in range(vectors):
        largest = fmax(largest, fmax(fmax(score[${v}].s0, score[${v}].s1), fmax(score[${v}].s2, score[${v}].s3)));
% endfor
</%def>

## Replace the scores in local memory by their exponentials, by the function `exponential`, exp or exp2.  top_of (local
## memory) has `largest` of each work-item.  If the maximum m grows, the sum z is scaled by `shrink`, and factor_of
## (local memory, one number a row) passes it on, for the results of the row.
<%def name="exponentials(vectors, W, exponential)">\
#pragma unroll
        for (uint w = 0; w < ${W}u; ++w) largest = fmax(largest, top_of[t / ${W}u * ${W}u + w]);
        const ${real} shrink = ${exponential}(m - largest);
        if (t % ${W}u == 0) factor_of[t / ${W}u] = shrink;
        m = largest;
        z *= shrink;
% for v, e in elements(vectors):
        {
            const ${real} p = ${exponential}(score[${v}].s${e} - m);
            z += p;
% if drops:
            ${key(v, e, W)}
            score[${v}].s${e} = p * ${dropout.factor()};
% else:
            score[${v}].s${e} = p;
% endif
        }
% if e == 3:
        scores[${v * W}] = score[${v}];
% endif
% endfor
</%def>
