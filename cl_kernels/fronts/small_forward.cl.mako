## Y = L^-1 B for the own columns of small fronts, in place, on a GPU.  Group g has front which[g / pieces] and the
## right-hand sides from g % pieces * wide on.
##
##      f = | b of the own columns | + the children's contributions, in the order of the children
##          | 0                    |
##      y = L11^-1 f_c, four rows at a time; all rows below subtract these four
##      contribution = f_u - L21 y
##
## Local memory: f, the m = c + u rows of f, and `solved`, those of y, by rows of `wide` elements; `triangle`, L11,
## packed by rows.  Work-item t computes right-hand side right = t % wide, rows first_row = t / wide, first_row + step,
## ...
##
## size, columns       rows, and own columns, of the largest front
## lanes, wide         work-items, and right-hand sides, of a group          pieces   groups of a front
## x                   B, then the result: n x count, row-major, in the permuted numbering
## contribution_start  for each front: the first row of its contribution in `contributions` (rows of `count` elements)
## addends             rows of `contributions`: row i of a front adds the rows addends[k], start[i] <= k < start[i + 1],
##                     where `start` is the front's part of addends_start
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% step = lanes // wide %>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}
${tile.subtraction(e)}
#define TRIANGLE(i, k) triangle[(i) * ((i) + 1) / 2 + (k)]

__kernel ${group.of_size(lanes)}
void ${kernel("small_forward")}
{
    __local value_t f[${size * wide}], solved[${columns * wide}], triangle[${columns * (columns + 1) // 2}];
    __local real_t inverse[${columns}];
    const int t = get_local_id(0), right = t % ${wide}, first_row = t / ${wide};
    const long s = which[get_group_id(0) / pieces], r = get_group_id(0) % pieces * ${wide} + right;
    const bool is_inside = r < count;
${front_.front("s", only=("columns", "rows", "panel", "leading", "first", "row_start"))}
    const int c = (int)columns, m = c + (int)rows;
    __global const ${e.name}_t *l = factor + factor_offset + panel;
    x += x_offset + first * count + r;
    contributions += contributions_offset + r;
    ${front_.triangle(e, lanes)}
    __global const int *start = addends_start + first + row_start;
    for (int i = first_row; i < m; i += ${step}) {
        value_t v = (value_t)(0);
        if (is_inside) {
            if (i < c) v = ${e.name}_load(x + i * count);
            for (int k = start[i]; k < start[i + 1]; ++k) v += ${e.name}_load(contributions + addends[k] * count);
        }
        f[i * ${wide} + right] = v;
    }
    // y: every work-item computes rows k .. k + 3 as y0 .. y3, and subtracts them from its rows below.
    for (int k = 0; k < c; k += 4) {
        barrier(CLK_LOCAL_MEM_FENCE);
% for j in range(4):
        value_t y${j} = (value_t)(0);
        if (k + ${j} < c) {
            y${j} = f[(k + ${j}) * ${wide} + right];
% for i in range(j):
            SUBTRACT(y${j}, TRIANGLE(k + ${j}, k + ${i}), y${i});
% endfor
            y${j} *= inverse[k + ${j}];
            if (first_row == ${j % step}) solved[(k + ${j}) * ${wide} + right] = y${j};
        }
% endfor
        for (int i = k + 4 + first_row; i < c; i += ${step}) {
            value_t v = f[i * ${wide} + right];
% for j in range(4):
            SUBTRACT(v, TRIANGLE(i, k + ${j}), y${j});
% endfor
            f[i * ${wide} + right] = v;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!is_inside) return;
    for (int i = first_row; i < c; i += ${step}) ${e.name}_store(x + i * count, solved[i * ${wide} + right]);
    contributions += (contribution_start[s] - c) * count;
    for (int i = c + first_row; i < m; i += ${step}) {
        __global const ${e.name}_t *row = l + i * leading;
        value_t v = f[i * ${wide} + right];
#pragma unroll 8
        for (int k = 0; k < c; ++k) SUBTRACT(v, ${e.name}_load(row + k), solved[k * ${wide} + right]);
        ${e.name}_store(contributions + i * count, v);
    }
}
