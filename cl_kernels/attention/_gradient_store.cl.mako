## Store the gradients of the own rows in mma_backward and wgmma_backward, whose names are used.  outputs: for each
## result its name, the name of its sums, and the extent of a row.  A lane has the sums of rows g and g + 8 of each
## block of 16, columns 2 c and 2 c + 1 of each 8.  dv is divided by 2^shift, by which p is multiplied there.
<%def name="store(outputs)">\
% for i, h, name, sums, D in ((i, h, *output) for i in range(policy.blocks) for h in range(2) for output in outputs):
    if (mine + ${16 * i + 8 * h}u + g < rows) {
        __global ushort *row = ${name}_in + (${name}_offset + b * ${name}_batch + own_head * ${name}_head
            + (mine + ${16 * i + 8 * h}u + g) * ${name}_row) + 2u * c;
<% size, times = ("dv_size", f"{2.0 ** -shift!r}f") if name == "dv" else ("dq_size", "scale") %>\
% for j in range(D // 8):
        if (${8 * j}u < ${size}) *(__global uint *)(row + ${8 * j}) =
            rounded_pair(${times} * ${sums}${i}_${j}_${2 * h}, ${times} * ${sums}${i}_${j}_${2 * h + 1});
% endfor
    }
% endfor
</%def>
