## Parts of tiles and tiles_backward.  Parameters `array`: the name of an array, the argument with the extent of its
## rows, and that extent rounded up to 64 (D).  Its tile in local memory, NAME_tile, has rows of D + 4 elements.
## In scope there: t, the local id (of 256); y, x: the work-item has own rows y + 16 r, of pairs the columns x + 16 c,
## of results the columns 4 x + 64 c + 0 .. 3; first, t0: the tile's first own row and first other row; rows, others:
## how many exist; b, h: batch, head of the queries; TM, TN: own and other rows of a tile; side: "q" if own rows are
## queries.  In the text i is a query and n a key.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>

## Load a tile of `count` rows, from `start` on, of head `head`, to the work-item's registers NAME_next; rows from
## `rows` on, and elements beyond the extent, are 0.  A step loads 256 / D rows; a work-item has one element d of a row.
<%def name="fetch(array, start, rows, head, count)"><% name, size, D = array %>\
            ${real} ${name}_next[${count * D // 256}];
            {
                const uint row = ${start} + t / ${D}u, d = t % ${D}u;
                __global const ${elem.name}_t *from = ${name}_data + (${name}_offset
                    + b * ${name}_batch + (${head}) * ${name}_head + row * ${name}_row + d * ${name}_step);
#pragma unroll
                for (uint step = 0; step < ${count * D // 256}u; ++step)
                    ${name}_next[step] = row + ${256 // D}u * step < ${rows} && d < ${size}
                        ? ${elem.name}_load(from + ${256 // D} * step * ${name}_row) : 0;
            }
</%def>

## Copy the loaded rows to the tile in local memory.
<%def name="place(array, count)"><% name, _, D = array %>\
#pragma unroll
            for (uint step = 0; step < ${count * D // 256}u; ++step)
                ${name}_tile[(t / ${D}u + ${256 // D}u * step) * ${D + 4}u + t % ${D}u] = ${name}_next[step];
</%def>

## Both, where no products overlap them.
<%def name="load(array, start, rows, head, count)">{
${fetch(array, start, rows, head, count)}\
${place(array, count)}\
}
</%def>
## Of each pair (r, c) of the work-item: pair_sum{r}_{c} += a b', where a is own row y + 16 r of the array `own` and b
## is row x + 16 c of the array `other`, both in local memory, four elements d at a time.  pair_sum: a name, s or dp.
<%def name="multiply(pair_sum, own, other)"><%
(own_name, _, D), other_name, T = own, other[0], vector(real, 4)
pitch, cells = D + 4, [(r, c) for r in range(TM // 16) for c in range(TN // 16)]
%>\
            for (uint d = 0; d < ${D}u; d += 4u) {
% for r in range(TM // 16):
                const ${T} a${r} = *(const __local ${T} *)(${own_name}_tile + (y + ${16 * r}u) * ${pitch}u + d);
% endfor
% for c in range(TN // 16):
                const ${T} b${c} = *(const __local ${T} *)(${other_name}_tile + (x + ${16 * c}u) * ${pitch}u + d);
% endfor
% for part, (r, c) in ((part, cell) for part in "xyzw" for cell in cells):
                ${pair_sum}${r}_${c} += a${r}.${part} * b${c}.${part};
% endfor
            }
</%def>

## Replace the product s of a pair by its score, which is minus infinity if the query does not see the key.
<%def name="score(r, c)"><%
own_row, other_row, added = f"first + y + {16 * r}u", f"t0 + x + {16 * c}u", mask and not mask.boolean
is_seen = " && ".join(["exists"] + ["n <= i"] * causal + ["of_mask"] * bool(mask and not added))
mask_at = "mask_data + (mask_offset + b * mask_batch + h * mask_head + i * mask_row + n * mask_step)"
%>\
            {
                const uint i = ${own_row if side == "q" else other_row}, n = ${other_row if side == "q" else own_row};
                const bool exists = i < queries && n < keys;
                ${f"const {mask.value} of_mask = exists ? {mask.name}_load({mask_at}) : 0;" if mask else ""}
                s${r}_${c} = ${is_seen} ? scale * s${r}_${c}${" + of_mask" if added else ""} : -(${real})INFINITY;
            }
</%def>

## Replace the score s of a pair by its probability p (times the factor of dropout f), and dp by the gradient of the
## score, p (f dp - delta).  m_of, delta_of: the logarithm of the sum, and delta, of each query.
<%def name="probability(r, c)"><% in_tile = f"y + {16 * r}u" if side == "q" else f"x + {16 * c}u" %>\
            {
                s${r}_${c} = exp(s${r}_${c} - m_of[${in_tile}]);
% if drops:
<% own_row, other_row = f"min(first + y + {16 * r}u, rows - 1u)", f"min(t0 + x + {16 * c}u, others - 1u)" %>\
                const uint i = ${own_row if side == "q" else other_row}, n = ${other_row if side == "q" else own_row};
                const ${real} factor = ${dropout.factor()};
                dp${r}_${c} = s${r}_${c} * (factor * dp${r}_${c} - delta_of[${in_tile}]);
                s${r}_${c} *= factor;
% else:
                dp${r}_${c} = s${r}_${c} * (dp${r}_${c} - delta_of[${in_tile}]);
% endif
            }
</%def>

## Add the products of `pairs` and the rows of the tile of the array `other` to sums{r}_{c}, vectors of the results' row
## y + 16 r at column 4 x + 64 c.  pairs: TM rows of TN numbers in local memory, TN + 8 apart; four are read at a time.
<%def name="add(sums, D, other)"><% T, R = vector(real, 4), TM // 16 %>\
            for (uint j = 0; j < ${TN}u; j += 4u) {
% for r in range(R):
                const ${T} four${r} = *(const __local ${T} *)(pairs + (y + ${16 * r}u) * ${TN + 8}u + j);
% endfor
% for part, c in ((part, c) for part in range(4) for c in range(D // 64)):
                {
                    const ${T} line =
                        *(const __local ${T} *)(${other}_tile + (j + ${part}u) * ${D + 4}u + 4u * x + ${64 * c}u);
% for r in range(R):
                    ${sums}${r}_${c} += four${r}.${"xyzw"[part]} * line;
% endfor
                }
% endfor
            }
</%def>

## Store sums{r}_{c} of the own rows y + 16 r, each multiplied by a C expression of `factors`, to the array `name`,
## whose rows have the extent `extent`.
<%def name="store(name, sums, D, extent, factors, rows='rows', head='own_head')">\
% for r, factor in enumerate(factors):
    if (first + y + ${16 * r}u < ${rows}) {
        __global ${elem.name}_t *line = ${name}_data + (${name}_offset + b * ${name}_batch + ${head} * ${name}_head
            + (first + y + ${16 * r}u) * ${name}_row);
% for c, part in ((c, part) for c in range(D // 64) for part in range(4)):
        if (4u * x + ${64 * c + part}u < ${extent})
            ${elem.name}_store(line + (4u * x + ${64 * c + part}u) * ${name}_step,
                ${factor} * ${sums}${r}_${c}.${"xyzw"[part]});
% endfor
    }
% endfor
</%def>
