## A part of mma_backward and wgmma_backward: store the gradients of the own rows.  outputs: for each result its name,
## the name of its sums, and the padded extent of a row.  A lane (g = lane / 4, c = lane % 4) has the sums of rows
## first_own + 16 block + 8 half + g, of each 8 columns those at 2c and 2c + 1.  dv is divided by 2^shift, by which p is
## multiplied there.  In scope: first_own, the warp's first row; rows, their number; b, own_head: batch and head.
<%def name="store(outputs)">\
<% places = [(block, half) for block in range(policy.blocks) for half in range(2)] %>\
% for block, half, name, sums, D in ((*place, *output) for place in places for output in outputs):
    if (first_own + ${16 * block + 8 * half}u + g < rows) {
        __global ushort *row = ${name}_data + (${name}_offset + b * ${name}_batch + own_head * ${name}_head
            + (first_own + ${16 * block + 8 * half}u + g) * ${name}_row) + 2u * c;
<% extent, factor = ("dv_size", f"{2.0 ** -shift!r}f") if name == "dv" else ("dq_size", "scale") %>\
% for j in range(D // 8):
<% sum, next = (f"{sums}{block}_{j}_{2 * half + e}" for e in range(2)) %>\
        if (${8 * j}u < ${extent}) *(__global uint *)(row + ${8 * j}) =
            rounded_pair(${factor} * ${sum}, ${factor} * ${next});
% endfor
    }
% endfor
</%def>
