## Two numbers of each query in mma_backward and wgmma_backward, and copies of tiles.  Names are those of mma_backward.
##
## delta is the sum of grad * y along the query's row.  m is the binary logarithm of the sum of the exponentials of its
## scores, minus `shift`; with an additive mask it is the natural logarithm of the sum.  For a query that does not exist
## m is infinite, so that its p are 0.  For a query that sees no key, whose scores are minus infinity, the logarithm is
## replaced by 0.

## Expressions for the stored natural logarithm of the sum of query i of head h, and for m, computed from it.
<%def name="read_sum(i)">\
${wide.name}_load(sums_in + (sums_offset + b * sums_batch + h * sums_head + (${i}) * sums_row))\
</%def>
<%def name="logarithm(sum)"><%
logarithm, minus_shift = (f"M_LOG2E_F * {sum}", f" - {shift}") if not mask or mask.boolean else (sum, "")
%>\
(${sum} == -INFINITY ? 0.0f : ${logarithm})${minus_shift}\
</%def>

## For side q: declare m and delta of the lane's rows, and store delta.  Four lanes share a row; each sums a quarter.
<%def name="declare_own()">\
% for i, h in ((i, h) for i in range(policy.blocks) for h in range(2)):
    float m${i}_${h} = INFINITY, delta${i}_${h} = 0;
    {
        const uint i = mine + ${16 * i + 8 * h}u + g;
        if (i < queries) {
            __global const ${elem.name}_t *x = grad_rows + i * grad_row,
                *y = y_in + (y_offset + b * y_batch + h * y_head + i * y_row);
            for (uint d = c; d < dv_size; d += 4u)
                delta${i}_${h} += ${elem.name}_load(x + d) * ${elem.name}_load(y + d);
            const float sum = ${read_sum("i")};
            m${i}_${h} = ${logarithm("sum")};
        }
        delta${i}_${h} += across(delta${i}_${h}, 1);
        delta${i}_${h} += across(delta${i}_${h}, 2);
        if (i < queries && c == 0)
            ${wide.name}_store(delta_in + (delta_offset + b * delta_batch + h * delta_head + i * delta_row),
                delta${i}_${h});
    }
% endfor
</%def>

## Start the copies of the tile of rows from `start` on, if there are any, to offset `ahead` of local memory by the def
## copy_tile (of _copies or _lines).  For side k, also load the logarithm and delta of its query t to `next`.  Later
## `keep` stores m and delta of all queries in one half of of_queries, which begins at `half`.
<%def name="copy(copy_tile, start, ahead)">\
        if (${start} < end) {
% for name, D, extent in tile_arrays:
${copy_tile(name, D, policy.others, extent, policy.group_size, f"others - ({start})", ahead)}\
% endfor
            COPIES_COMMIT();
% if side == "k":
            const uint i = ${start} + t;
            next = (float2)(INFINITY, 0);
            if (t < ${policy.others}u && i < queries)
                next = (float2)(${read_sum("i")}, ${wide.name}_load(delta_in
                    + (delta_offset + b * delta_batch + h * delta_head + i * delta_row)));
% endif
        }
</%def>
<%def name="keep(half)">\
% if side == "k":
        if (t < ${policy.others}u) of_queries[t + ${half}] = (float2)(${logarithm("next.x")}, next.y);
% endif
</%def>
