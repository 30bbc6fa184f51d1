## The softmax of a tile of scores, for tiles, whose names are used.  W = 256 / TM work-items share the row of a query,
## i; work-item t has every W-th vector of 4 scores of row t / W, from vector t % W on.  vectors: how many it has.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%!
elements = lambda vectors: [(n, e) for n in range(vectors) for e in range(4)]
%>

## Declare n, the key of element e of a work-item's vector `n`.
<%def name="key(n, e, W)">const uint n = t0 + ${4 * n * W + e}u + t % ${W}u * 4u;</%def>

## Load the scores times `factor`, add the mask, and set scores of keys that are not seen to minus infinity.  `largest`
## becomes the maximum of m, the maximum of earlier tiles, and of these scores.
<%def name="largest(vectors, W)"><% T = vector(real, 4) %>\
        ${T} score[${vectors}];
% for n in range(vectors):
        score[${n}] = factor * scores[${n * W}];
% endfor
        if (t0 + ${TN}u > ${"min(last, first + 1u)" if causal else "last"}) {
% for n, e in elements(vectors):
            {
                ${key(n, e, W)}
                score[${n}].s${e} = n < last${" && n <= i" if causal else ""} ? score[${n}].s${e} : -INFINITY;
            }
% endfor
        }
% for n, e in elements(vectors) if mask else ():
        {
            ${key(n, e, W)}
            const ${mask.value} of_mask = n < last ? ${mask.name}_load(mask_row_in + n * mask_step) : 0;
% if mask.boolean:
            score[${n}].s${e} = of_mask ? score[${n}].s${e} : -INFINITY;
% else:
            score[${n}].s${e} += of_mask;
% endif
        }
% endfor
        ${real} largest = m;
% for n in range(vectors):
        largest = fmax(largest, fmax(fmax(score[${n}].s0, score[${n}].s1), fmax(score[${n}].s2, score[${n}].s3)));
% endfor
</%def>

## Store the exponentials of scores, by the function `exponential`, exp or exp2.  top_of has `largest` of each
## work-item.
## If the maximum m grows, the sum z is scaled by `shrink`, and factor_of passes it on, for the results of the row.
<%def name="powers(vectors, W, exponential)">\
#pragma unroll
        for (uint w = 0; w < ${W}u; ++w) largest = fmax(largest, top_of[t / ${W}u * ${W}u + w]);
        const ${real} shrink = ${exponential}(m - largest);
        if (t % ${W}u == 0) factor_of[t / ${W}u] = shrink;
        m = largest;
        z *= shrink;
% for n, e in elements(vectors):
        {
            const ${real} p = ${exponential}(score[${n}].s${e} - m);
            z += p;
% if drops:
            ${key(n, e, W)}
            score[${n}].s${e} = p * ${dropout.factor()};
% else:
            score[${n}].s${e} = p;
% endif
        }
% if e == 3:
        scores[${n * W}] = score[${n}];
% endif
% endfor
</%def>
