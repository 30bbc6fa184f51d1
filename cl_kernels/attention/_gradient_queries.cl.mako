## Queries of mma_backward, and its copies of tiles.  Names are those of mma_backward.
##
## A query has two numbers, delta and m.  m is the binary logarithm of the sum of its powers, minus `shift`; with an
## additive mask it is the natural logarithm of the sum.  A missing query has an infinite m, so its p are 0.  A query
## that sees no key has scores of minus infinity, and 0 is used as the logarithm.

## Expressions for the stored natural logarithm of the sum of query i of head h, and for m, computed from it.
<%def name="read_sum(i)">\
${wide.name}_load(sums_in + (sums_offset + b * sums_batch + h * sums_head + (${i}) * sums_row))\
</%def>
<%def name="logarithm(sum)"><%
logarithm, minus_shift = (f"M_LOG2E_F * {sum}", f" - {shift}") if not mask or mask.boolean else (sum, "")
%>\
(${sum} == -INFINITY ? 0.0f : ${logarithm})${minus_shift}\
</%def>

## For side q: declare m and delta of the warp's rows.  The four lanes of a quad share a row.
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

## Request the tile of rows from `start` on, if there are any; copy_tile copies it to offset `ahead` of local memory.
## For side k, also load the logarithms and delta of its queries.  When they have arrived, `keep` stores m and delta in
## one half of of_queries.
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
