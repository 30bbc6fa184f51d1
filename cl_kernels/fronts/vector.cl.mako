## Solve with the panels of some fronts, for few right-hand sides, in one launch: a work-group for each
## block of rows, `tall` times 64, and each right-hand side, in an order in which they become known.
##
##          forward: Y = L^-1 B                         backward: X = L^-H Y
##      +-----+                                     +-----+
##   c  | L11 |   f = b + contributions             | L11 |     x_c = L11^-H (y - L21^H x_rows)
##      +-----+   y = L11^-1 f_c                    +-----+
##   u  | L21 |   contribution = f_u - L21 y        | L21 |     the rows' x are known: ancestors have them
##      +-----+                                     +-----+
## Backward is forward with the columns in reverse order: block 0 has the last ones.
##
## tasks          of each: front, block, where its front's marks begin
## x              n x count, by rows, in the permuted numbering
## contributions  (forward) of each front from row `started` on
## taken          (forward) of each front's row: which contributions it takes, from taken_start on
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="parts" file="/factor/_vector.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
along = not backward
given = "CONJ" if backward and e.complex else ""
high = 64 * tall

def columns(h, k):
    return f"l + (first_row + {64 * h}) * l_row + 64l * {k} * l_col", "l_row", "l_col", f"(left - {64 * h})", f"(c - 64 * {k})"

def square():
    return "l + (first_row + 64) * l_row + first_row * l_col", "l_row", "l_col", "(left - 64)", "64"

def known(k):
    return f"(64 * {k} + t < c ? {e.name}_load(y + (64l * {k} + t) * y_row) : (value_t)(0))"
%>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.reciprocal(e)}
${numbers.parts(e)}
${tile.subtraction(e)}
<%include file="/subgroup/warp_barrier.cl.mako"/>

__kernel ${group.of_size(256)}
void vector(__global const int4 *tasks, \
${"" if backward else "__global const int *taken_start, __global const int *taken, "}${front_.parameters()}, uint groups, long count,
            __global const ${e.name}_t *factor, long factor_offset, __global ${e.name}_t *x, long x_offset, \
${"" if backward else f"__global {e.name}_t *contributions, long contributions_offset, "}volatile __global uint *ready)
{
    ${parts.declare(along, tall)}
    __local uint number;
    __local int until;
    const int t = get_local_id(0);
    if (t == 0) number = atomic_inc(ready);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int4 task = tasks[number / count];
    const long s = task.x, r = number % count;
    const int block = task.y;
${front_.front("s", only=("columns", "rows", "panel", "leading", "row_start", "first"))}
    const int c = (int)columns, u = (int)rows, blocks = (c + ${high - 1}) / ${high}, tiles = (c + 63) / 64;
    volatile __global uint *done = ready + 2 + task.z * count + r * ${"blocks" if backward else f"(blocks + (u + {high - 1}) / {high})"};
    factor += factor_offset + panel;
    x += x_offset + r;
    value_t own = (value_t)(0);
    int have = 0;
    const int steps = min(${tall} * block, tiles);
% if backward:
    const int first_row = ${high} * block, left = min(c - first_row, ${high});
    const long last = c - 1, l_row = -1, l_col = -leading;
    __global const ${e.name}_t *l = factor + last * (leading + 1);
    __global ${e.name}_t *y = x + (first + last) * count;
    const long y_row = -count;
    if (t < left) own = ${e.name}_load(y + (first_row + t) * y_row);
    ${parts.diagonals(e, along, tall, "l + first_row * (l_row + l_col)", "l_row", "l_col", "left", given, False)}
    {
        __global const int *row = row_index + row_start;
        int at = t < 64 && t + 64 < u ? row[t + 64] : 0;
        value_t next_x = t < 64 && t < u ? ${e.name}_load(x + row[t] * count) : (value_t)(0);
        ${fetch_below("0")}
        for (int k = 0; k < u; k += 64) {
            if (t < 64) {
                xs[(k & 64) + t] = next_x;
                next_x = k + 64 + t < u ? ${e.name}_load(x + at * count) : (value_t)(0);
                at = k + 128 + t < u ? row[k + 128 + t] : 0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
% for h in range(tall):
            ${parts.multiply(along, h, h, "xs + (k & 64)", given)}
% endfor
            if (k + 64 < u) {
                ${fetch_below("(k + 64)")}
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    ${parts.solve(e, along, tall, given, columns, square, known, "blocks")}
    if (t < left) ${e.name}_store(y + (first_row + t) * y_row, own);
    ${parts.tell("STORE_PUBLISHED(done + block, 1u);")}
% else:
    contributions += contributions_offset + r;
    const bool is_own = block < blocks;
    const int first_row = is_own ? ${high} * block : c + ${high} * (block - blocks), left = min((is_own ? c : c + u) - first_row, ${high});
    const long l_row = leading, l_col = 1;
    __global const ${e.name}_t *l = factor;
    __global ${e.name}_t *y = x + first * count;
    const long y_row = count;
    if (t < left) {
        if (is_own) own = ${e.name}_load(y + (first_row + t) * y_row);
        __global const int *start = taken_start + first + row_start + first_row + t;
        for (int k = start[0]; k < start[1]; ++k) own += ${e.name}_load(contributions + taken[k] * count);
    }
    if (is_own) {
        ${parts.diagonals(e, along, tall, "l + first_row * (l_row + l_col)", "l_row", "l_col", "left", given, False)}
    }
    ${parts.solve(e, along, tall, given, columns, square, known, "blocks", "is_own")}
    if (t < left) {
        __global ${e.name}_t *to = is_own ? y + (first_row + t) * y_row : contributions + (started[s] + first_row - c + t) * count;
        ${e.name}_store(to, own);
    }
    ${parts.tell("if (is_own) STORE_PUBLISHED(done + block, 1u);")}
% endif
}
<%def name="fetch_below(k)">\
% for h in range(tall):
${parts.fetch(e, along, h, f"factor + (c + {k}) * leading + last - first_row - {64 * h}", "l_row", "leading", f"(left - {64 * h})", f"(u - {k})")}
% endfor
</%def>
