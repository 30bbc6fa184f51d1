## Matrices of different sizes: kernels with `ragged` take n, offsets and strides of each from `table`, an array of
## long, which has five numbers for each matrix to factorise, or eight for each pair of L and B to solve, in the order
## in which they are read here.  In scope: product, the index of the matrix or of the pair.
##
##   matrix(names)   declare n and the index in the report; set the pointers and strides of the operands `names`
##   pair(n_type)    declare n and m; set the pointers and strides of L and of B
##   line(n, e)      the distance of rows in scratch, in elements, for n columns: an odd number of cache lines of
##                   64 bytes, so that rows are in different sets of the cache
## Offsets count elements from the start of the operands.

<%def name="matrix(names, n_type='int')">
    __global const long *entry = table + 5 * product;
    const ${n_type} n = entry[0];
% for name in names:
    ${name} += entry[1];
    ${name}_row = entry[2];
    ${name}_col = entry[3];
% endfor
    const long report_index = entry[4];
</%def>

<%def name="pair(n_type='int')">
    __global const long *entry = table + 8 * product;
    ${n_type} n = entry[0];
    const long m = entry[1];
% for k, name in enumerate("lb"):
    ${name} += entry[${2 + 3 * k}];
    ${name}_row = entry[${3 + 3 * k}];
    ${name}_col = entry[${4 + 3 * k}];
% endfor
</%def>

<%def name="line(n, e)">(((${n}) * ${e.itemsize} + 63) / 64 | 1) * ${64 // e.itemsize}</%def>
