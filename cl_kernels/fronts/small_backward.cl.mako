## X = L^-H Y for the own columns of small fronts, in place, on a GPU.  Group g has front which[g / pieces] and the
## right-hand sides from g % pieces * wide on.
##
##      v = y_c - L21^H x_u                `across` columns of L21 at a time, with `parts` partial sums for each
##      x_c = L11^-H v, four rows at a time, from the last row on; all rows above subtract these four
##
## x_u has the elements of X in the front's other rows, which ancestors have computed.  A group's work-items are `wide`
## right-hand sides by `step` rows; `right` and `first_row` are the right-hand side and the first row of one.
##
##   f          local memory: the m = c + u rows of X of the front, by rows of `wide` elements
##   triangle   local memory: L11, packed by rows
##   sums       local memory: the partial sums of the work-items
## size, columns   rows, and own columns, of the largest front
## lanes, wide     work-items, and right-hand sides, of a group          pieces   groups of a front
## x               Y, then the result: n x count, row-major, in the permuted numbering
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
step = lanes // wide
across = min(8, step)
parts = step // across
%>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.parts(e)}
${tile.subtraction(e)}
#define TRIANGLE(i, k) triangle[(i) * ((i) + 1) / 2 + (k)]

__kernel ${group.of_size(lanes)}
void ${kernel("small_backward")}
{
    __local value_t f[${size * wide}], sums[${lanes}], triangle[${columns * (columns + 1) // 2}];
    __local real_t inverse[${columns}];
    const int t = get_local_id(0), right = t % ${wide}, first_row = t / ${wide};
    const long s = which[get_group_id(0) / pieces], r = get_group_id(0) % pieces * ${wide} + right;
    const bool is_inside = r < count;
${front_.front("s", only=("columns", "rows", "panel", "leading", "first", "row_start"))}
    const int c = (int)columns, m = c + (int)rows;
    __global const ${e.name}_t *l = factor + factor_offset + panel;
    x += x_offset + r;
    ${front_.triangle(e, lanes)}
    for (int i = first_row; i < m; i += ${step}) {
        const long row = i < c ? first + i : row_index[row_start + i - c];
        f[i * ${wide} + right] = is_inside ? ${e.name}_load(x + row * count) : (value_t)(0);
    }
    // v: each iteration has columns from .. from + across - 1 of L21, and a work-item every `parts`-th row of column k.
    for (int from = 0; from < c; from += ${across}) {
        const int k = from + first_row % ${across};
        value_t sum = (value_t)(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k < c) {
#pragma unroll 8
            for (int i = c + first_row / ${across}; i < m; i += ${parts})
                MAD(sum, CONJ(${e.name}_load(l + i * leading + k)), f[i * ${wide} + right]);
        }
        sums[t] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (first_row < ${across} && k < c)
            for (int part = 0; part < ${parts}; ++part) f[k * ${wide} + right] -= sums[t + part * ${across * wide}];
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);  // before x is overwritten
    x += first * count;
    // x_c: every work-item computes rows k .. k + 3 as y0 .. y3, and subtracts them from its rows above.
    for (int k = (c - 1) / 4 * 4; k >= 0; k -= 4) {
        barrier(CLK_LOCAL_MEM_FENCE);
% for j in reversed(range(4)):
        value_t y${j} = (value_t)(0);
        if (k + ${j} < c) {
            y${j} = f[(k + ${j}) * ${wide} + right];
% for i in range(j + 1, 4):
            if (k + ${i} < c) SUBTRACT(y${j}, CONJ(TRIANGLE(k + ${i}, k + ${j})), y${i});
% endfor
            y${j} *= inverse[k + ${j}];
            if (first_row == ${j % step} && is_inside) ${e.name}_store(x + (k + ${j}) * count, y${j});
        }
% endfor
        for (int i = first_row; i < k; i += ${step}) {
            value_t v = f[i * ${wide} + right];
% for j in range(4):
            if (k + ${j} < c) SUBTRACT(v, CONJ(TRIANGLE(k + ${j}, i)), y${j});
% endfor
            f[i * ${wide} + right] = v;
        }
    }
}
