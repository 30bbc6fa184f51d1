## Matrices of different sizes: kernels with `ragged` take n, offsets and strides of each from `table`, an array of
## long, which has five numbers for each matrix, or eight for each pair, in the order in which they are read here.
##
##   matrix(names)   read from the table, for matrix `product`: n, its offset and strides, and its index in the report
##   pair(n_type)    read from the table, for pair `product`: n, m, and the offsets and strides of L and of B
##   line(n, e)      the distance of rows in scratch, in elements, for n columns: an odd number of cache lines of
##                   64 bytes, so that rows are in different sets of the cache
## Offsets count elements from the start of the operands.  names: the operands.

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
