## Parts of mma_backward and wgmma_backward: two numbers of each query, m and delta, and the copies of tiles.
## In scope there: t, the local id; g = lane / 4, c = lane % 4; first_own, the warp's first own row; b, batch; h, head
## of the queries; side, "q" if own rows are queries; wide, the Element of sums and delta; tile_arrays, others, end: see
## copy.
##
## delta is the sum of grad * y along the query's row.  m is the binary logarithm of the sum of the exponentials of its
## scores, minus `shift`; with an additive mask it is the natural logarithm of the sum.  For a query that does not exist
## m is infinite, so that its p are 0.  For a query that sees no key, whose scores are minus infinity, the logarithm is
## replaced by 0.

## Expressions for the stored natural logarithm of the sum of query i (C text) of head h, and for m, computed from it.
<%def name="read_sum(i)">\
${wide.name}_load(sums_data + (sums_offset + b * sums_batch + h * sums_head + (${i}) * sums_row))\
</%def>
<%def name="logarithm(sum)"><%
added = mask and not mask.boolean
logarithm = sum if added else f"M_LOG2E_F * {sum}"
%>\
(${sum} == -INFINITY ? 0.0f : ${logarithm})${"" if added else f" - {shift}"}\
</%def>

## For side q: declare m and delta of the lane's rows first_own + 16 block + 8 half + g, and store delta.  Four lanes c
## share a row; each sums the elements c, c + 4, ...
<%def name="declare_own()">\
% for block, half in ((block, half) for block in range(policy.blocks) for half in range(2)):
    float m${block}_${half} = INFINITY, delta${block}_${half} = 0;
    {
        const uint i = first_own + ${16 * block + 8 * half}u + g;
        if (i < queries) {
            __global const ${elem.name}_t *grad_line = grad_rows + i * grad_row,
                *y_line = y_data + (y_offset + b * y_batch + h * y_head + i * y_row);
            for (uint d = c; d < dv_size; d += 4u)
                delta${block}_${half} += ${elem.name}_load(grad_line + d) * ${elem.name}_load(y_line + d);
            const float sum = ${read_sum("i")};
            m${block}_${half} = ${logarithm("sum")};
        }
        delta${block}_${half} += across(delta${block}_${half}, 1);
        delta${block}_${half} += across(delta${block}_${half}, 2);
        if (i < queries && c == 0)
            ${wide.name}_store(delta_data + (delta_offset + b * delta_batch + h * delta_head + i * delta_row),
                delta${block}_${half});
    }
% endfor
</%def>

## Start the copies of the tile of the other side's rows from `start` on, if start < end, by the def copy_tile (of
## _copies or _lines).  ahead: C text, added to the address in local memory, in bytes.  tile_arrays: name, padded extent
## and extent of both arrays; others: the number of the other side's rows.  For side k, work-item t also loads the
## logarithm and delta of the tile's query t to `next`; later store_next stores (m, delta) at t + tile_start in
## of_queries.
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
                next = (float2)(${read_sum("i")}, ${wide.name}_load(delta_data
                    + (delta_offset + b * delta_batch + h * delta_head + i * delta_row)));
% endif
        }
</%def>
<%def name="store_next(tile_start)">\
% if side == "k":
        if (t < ${policy.others}u) of_queries[t + ${tile_start}] = (float2)(${logarithm("next.x")}, next.y);
% endif
</%def>
