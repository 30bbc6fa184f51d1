## The transforms of Winograd's F(2 x 2, 3 x 3) (Lavin and Gray, 2016): y = A' [(G w G') * (B' d B)] A, with
##
##         1    0    0            1  0 -1  0
##   G =  1/2  1/2  1/2     B' =  0  1  1  0     A' = 1  1  1  0
##        1/2 -1/2  1/2           0 -1  1  0          0  1 -1 -1
##         0    0    1            0  1  0 -1
##
## of a filter w of 3 x 3 and a tile d of 4 x 4, for the results y of 2 x 2.  * between parentheses is by elements, '
## the transpose.  Each matrix is applied to columns, then to rows.  Variables are numbered by row and column: d01
##
## The gradient of w, from that of y: dw = G' [sum over tiles of (A dy A') * (B' d B)] G.

## The statements that multiply a vector x by G (of_filter), B' (of_tile), A' (of_products), A (of_gradient) and G'
## (of_sums); to(i), x(i): the names of the elements.
<%def name="of_filter(to, x, real)">\
    const ${real} ${to(0)} = ${x(0)}, ${to(3)} = ${x(2)};
    const ${real} ${to(1)} = (${x(0)} + ${x(2)} + ${x(1)}) * (${real.rstrip("248")})0.5;
    const ${real} ${to(2)} = (${x(0)} + ${x(2)} - ${x(1)}) * (${real.rstrip("248")})0.5;
</%def>

<%def name="of_tile(to, x, real)">\
        const ${real} ${to(0)} = ${x(0)} - ${x(2)}, ${to(1)} = ${x(1)} + ${x(2)};
        const ${real} ${to(2)} = ${x(2)} - ${x(1)}, ${to(3)} = ${x(1)} - ${x(3)};
</%def>

<%def name="of_products(to, x, real)">\
        const ${real} ${to(0)} = ${x(0)} + ${x(1)} + ${x(2)}, ${to(1)} = ${x(1)} - ${x(2)} - ${x(3)};
</%def>

<%def name="of_gradient(to, x, real)">\
        const ${real} ${to(0)} = ${x(0)}, ${to(1)} = ${x(0)} + ${x(1)};
        const ${real} ${to(2)} = ${x(0)} - ${x(1)}, ${to(3)} = -${x(1)};
</%def>

<%def name="of_sums(to, x, real)"><% half = f"({real.rstrip('248')})0.5" %>\
    const ${real} ${to(0)} = ${x(0)} + (${x(1)} + ${x(2)}) * ${half}, ${to(1)} = (${x(1)} - ${x(2)}) * ${half};
    const ${real} ${to(2)} = (${x(1)} + ${x(2)}) * ${half} + ${x(3)};
</%def>

## Multiply a matrix x by one of these matrices on the left and by its transpose on the right: apply `transform`, one of
## the defs above, to the `columns` columns of x, and then to the `rows` rows of the result, which become y.
<%def name="both_sides(transform, x, y, columns, rows, real)">\
% for j in range(columns):
${transform(lambda i: f"along_{i}{j}", lambda i: f"{x}{i}{j}", real)}\
% endfor
% for i in range(rows):
${transform(lambda j: f"{y}{i}{j}", lambda j: f"along_{i}{j}", real)}\
% endfor
</%def>
