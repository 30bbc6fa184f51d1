## Matrices of different sizes: kernels with `ragged` take n, offsets and strides of each from a table.
##
##   matrix(names)   of `product`: n, offset, row, col, its place in the report
##   pair(n_type)    of `product`: n, m, then offset, row, col of L, and of B
## Offsets count from where the operands begin.

<%def name="matrix(names, n_type='int')">
    table += 5 * product;
    const ${n_type} n = table[0];
% for name in names:
    ${name} += table[1];
    ${name}_row = table[2];
    ${name}_col = table[3];
% endfor
    report += 2 * (table[4] - product);
</%def>

<%def name="pair()">
    table += 8 * product;
    const int n = table[0];
    const long m = table[1];
% for k, name in enumerate("lb"):
    ${name} += table[${2 + 3 * k}];
    ${name}_row = table[${3 + 3 * k}];
    ${name}_col = table[${4 + 3 * k}];
% endfor
</%def>
