## Matrices of different sizes: kernels with `ragged` take n, offsets and strides of each from a table.
##
##   matrix(names)   of `product`: n, offset, row, col, its index in the report
##   pair(n_type)    of `product`: n, m, then offset, row, col of L, and of B
##   line(n, e)      elements from a row of scratch to the next, of n columns
## Offsets count from the start of the operands.

<%def name="matrix(names, n_type='int')">
    __global const long *one = table + 5 * product;
    const ${n_type} n = one[0];
% for name in names:
    ${name} += one[1];
    ${name}_row = one[2];
    ${name}_col = one[3];
% endfor
    const long place = one[4];
</%def>

<%def name="pair(n_type='int')">
    __global const long *one = table + 8 * product;
    ${n_type} n = one[0];
    const long m = one[1];
% for k, name in enumerate("lb"):
    ${name} += one[${2 + 3 * k}];
    ${name}_row = one[${3 + 3 * k}];
    ${name}_col = one[${4 + 3 * k}];
% endfor
</%def>

<%def name="line(n, e)">(((${n}) * ${e.itemsize} + 63) / 64 | 1) * ${64 // e.itemsize}</%def>
