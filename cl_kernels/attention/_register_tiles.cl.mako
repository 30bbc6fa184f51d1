## Parts of tiles and tiles_backward, whose names are used.  An item is an array: its name, the argument with the extent
## of its rows, and that extent rounded up to 64 (D).  Rows in local memory have D + 4 elements.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>

## Load a tile of `count` rows, from `start` on, of head `head`, to the work-item's registers NAME_next; rows from
## `rows` on, and elements beyond the extent, are 0.
<%def name="fetch(item, start, rows, head, count)"><% name, size, D = item %>\
            ${real} ${name}_next[${count * D // 256}];
            {
                const uint r = ${start} + t / ${D}u, d = t % ${D}u;
                __global const ${elem.name}_t *from = ${name}_in + (${name}_offset
                    + b * ${name}_batch + (${head}) * ${name}_head + r * ${name}_row + d * ${name}_step);
#pragma unroll
                for (uint e = 0; e < ${count * D // 256}u; ++e)
                    ${name}_next[e] = r + ${256 // D}u * e < ${rows} && d < ${size}
                        ? ${elem.name}_load(from + ${256 // D} * e * ${name}_row) : 0;
            }
</%def>

## Copy the loaded rows to the tile in local memory.
<%def name="place(item, count)"><% name, _, D = item %>\
#pragma unroll
            for (uint e = 0; e < ${count * D // 256}u; ++e)
                ${name}_tile[(t / ${D}u + ${256 // D}u * e) * ${D + 4}u + t % ${D}u] = ${name}_next[e];
</%def>

## Both, where there is nothing to overlap them with.
<%def name="load(item, start, rows, head, count)">\
            {
${fetch(item, start, rows, head, count)}\
${place(item, count)}\
            }
</%def>

## Of each pair (i, j) of the work-item: n{i}_{j} += a b', where a is own row y + 16 i of the item `mine` and b is row
## x + 16 j of the item `other`, both in local memory.
<%def name="multiply(n, mine, other)"><%
T, pitch, cells = vector(real, 4), mine[2] + 4, [(i, j) for i in range(TM // 16) for j in range(TN // 16)]
%>\
            for (uint d = 0; d < ${mine[2]}u; d += 4u) {
% for name, at, count, letter in ((mine[0], "y", TM // 16, "a"), (other[0], "x", TN // 16, "b")):
% for i in range(count):
                const ${T} ${letter}${i} = *(const __local ${T} *)(${name}_tile + (${at} + ${16 * i}u) * ${pitch}u + d);
% endfor
% endfor
% for k, (i, j) in ((k, cell) for k in "xyzw" for cell in cells):
                ${n}${i}_${j} += a${i}.${k} * b${j}.${k};
% endfor
            }
</%def>

## Replace the product s of a pair by its score, which is minus infinity if the query does not see the key.
<%def name="score(i, j)"><%
mine, other, added = f"first + y + {16 * i}u", f"t0 + x + {16 * j}u", mask and not mask.boolean
%>\
            {
                const uint i = ${mine if side == "q" else other}, n = ${other if side == "q" else mine};
                const bool exists = i < queries && n < keys;
% if mask:
                const ${mask.value} of_mask = exists ? ${mask.name}_load(mask_in
                    + (mask_offset + b * mask_batch + h * mask_head + i * mask_row + n * mask_step)) : 0;
% endif
                s${i}_${j} = exists${" && n <= i" if causal else ""}${" && of_mask" if mask and not added else ""}
                    ? scale * s${i}_${j}${" + of_mask" if added else ""} : -(${real})INFINITY;
            }
</%def>

## Replace the score s of a pair by its probability p (times the factor of dropout f), and z by the gradient of the
## score, p (f z - delta).  m_of, delta_of: the logarithm of the sum, and delta, of each query.
<%def name="probability(i, j)"><% query = f"y + {16 * i}u" if side == "q" else f"x + {16 * j}u" %>\
            {
                s${i}_${j} = exp(s${i}_${j} - m_of[${query}]);
% if drops:
<% mine, other = f"min(first + y + {16 * i}u, rows - 1u)", f"min(t0 + x + {16 * j}u, others - 1u)" %>\
                const uint i = ${mine if side == "q" else other}, n = ${other if side == "q" else mine};
                const ${real} factor = ${dropout.factor()};
                z${i}_${j} = s${i}_${j} * (factor * z${i}_${j} - delta_of[${query}]);
                s${i}_${j} *= factor;
% else:
                z${i}_${j} = s${i}_${j} * (z${i}_${j} - delta_of[${query}]);
% endif
            }
</%def>

## Add the products of `pairs` (TM x TN numbers in local memory) and the rows of the tile of the array `other` to sums.
<%def name="add(sums, D, other)"><% T, R = vector(real, 4), TM // 16 %>\
            for (uint n = 0; n < ${TN}u; n += 4u) {
% for i in range(R):
                const ${T} e${i} = *(const __local ${T} *)(pairs + (y + ${16 * i}u) * ${TN + 8}u + n);
% endfor
% for k, q in ((k, q) for k in range(4) for q in range(D // 64)):
                {
                    const ${T} line =
                        *(const __local ${T} *)(${other}_tile + (n + ${k}u) * ${D + 4}u + 4u * x + ${64 * q}u);
% for i in range(R):
                    ${sums}${i}_${q} += e${i}.${"xyzw"[k]} * line;
% endfor
                }
% endfor
            }
</%def>

## Store sums of the own rows, multiplied by a C expression for each row, to the array `name`.
<%def name="store(name, sums, D, extent, factors, rows='rows', head='own_head')">\
% for i, factor in enumerate(factors):
    if (first + y + ${16 * i}u < ${rows}) {
        __global ${elem.name}_t *line = ${name}_in + (${name}_offset + b * ${name}_batch + ${head} * ${name}_head
            + (first + y + ${16 * i}u) * ${name}_row);
% for q, k in ((q, k) for q in range(D // 64) for k in range(4)):
        if (4u * x + ${64 * q + k}u < ${extent})
            ${elem.name}_store(line + (4u * x + ${64 * q + k}u) * ${name}_step,
                ${factor} * ${sums}${i}_${q}.${"xyzw"[k]});
% endfor
    }
% endfor
</%def>
