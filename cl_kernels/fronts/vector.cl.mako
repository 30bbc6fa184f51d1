## Solve with the panels of some fronts, for few right-hand sides, in one launch: a work-group for each 64
## rows of a front and each right-hand side, in an order in which they become known.
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
fields = ("columns", "rows", "panel", "leading", "first", *(("row_start",) if backward else ("child_start", "child_end")))
%>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.reciprocal(e)}
${numbers.parts(e)}
${tile.subtraction(e)}
${front_.first_from()}

__kernel ${group.of_size(256)}
void vector(__global const int4 *tasks, ${front_.parameters()}, uint groups, long count, __global const ${e.name}_t *factor, long factor_offset,
            __global ${e.name}_t *x, long x_offset, \
${"" if backward else f"__global {e.name}_t *contributions, long contributions_offset, "}volatile __global uint *ready)
{
    ${parts.declare(along)}
    __local uint number;
    __local int until;
    const int t = get_local_id(0);
    if (t == 0) number = atomic_inc(ready);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int4 task = tasks[number / count];
    const long s = task.x, r = number % count;
    const int block = task.y;
${front_.front("s", only=fields)}
    const int c = (int)columns, u = (int)rows, blocks = (c + 63) / 64;
    volatile __global uint *done = ready + 2 + task.z * count + r * blocks;
    factor += factor_offset + panel;
    x += x_offset + r;
    value_t own = (value_t)(0);
    int have = 0;
% if backward:
    const int first_row = 64 * block, left = min(c - first_row, 64);
    const long last = c - 1, l_row = -1, l_col = -leading;
    __global const ${e.name}_t *l = factor + last * (leading + 1);
    __global ${e.name}_t *y = x + (first + last) * count;
    const long y_row = -count;
    const bool is_own = true;
    if (t < left) own = ${e.name}_load(y + (first_row + t) * y_row);
    ${parts.diagonal(e, along, "l + first_row * (l_row + l_col)", "l_row", "l_col", "left", given, False)}
    ${fetch_below("0")}
    for (int k = 0; k < u; k += 64) {
        if (t < 64) xs[(k & 64) + t] = k + t < u ? ${e.name}_load(x + row_index[row_start + k + t] * count) : (value_t)(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        ${parts.multiply(along, "(k & 64)", given)}
        if (k + 64 < u) ${fetch_below("k + 64")}
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% else:
    contributions += contributions_offset + r;
    const bool is_own = block < blocks;
    const int first_row = is_own ? 64 * block : c + 64 * (block - blocks), left = min((is_own ? c : c + u) - first_row, 64);
    const long l_row = leading, l_col = 1;
    __global const ${e.name}_t *l = factor;
    __global ${e.name}_t *y = x + first * count;
    const long y_row = count;
    if (t < left) {
        if (is_own) own = ${e.name}_load(y + (first_row + t) * y_row);
        for (long k = child_start; k < child_end; ++k) {
            const long one = child[k];
${front_.front("one", "child_", ("rows", "row_start"))}
            __global const int *to = relative + child_row_start;
            const int at = first_from(to, (int)child_rows, first_row + t);
            if (at < child_rows && to[at] == first_row + t) own += ${e.name}_load(contributions + (started[one] + at) * count);
        }
    }
    if (is_own) ${parts.diagonal(e, along, "l + first_row * (l_row + l_col)", "l_row", "l_col", "left", given, False)}
% endif
    const int steps = min(block, blocks);
    if (steps > 0) ${fetch_tile("0")}
    for (int k = 0; k < steps; ++k) {
        ${parts.wait("k", "steps")}
        if (t < 64) xs[(k & 1) * 64 + t] = 64 * k + t < c ? ${e.name}_load(y + (64l * k + t) * y_row) : (value_t)(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        ${parts.multiply(along, "(k & 1) * 64", given)}
        if (k + 1 < steps) ${fetch_tile("k + 1")}
    }
    ${parts.subtract(along)}
    if (is_own) ${parts.substitute()}
    if (t < left) {
% if backward:
        ${e.name}_store(y + (first_row + t) * y_row, own);
% else:
        __global ${e.name}_t *to = is_own ? y + (first_row + t) * y_row : contributions + (started[s] + first_row - c + t) * count;
        ${e.name}_store(to, own);
% endif
    }
    ${parts.tell("if (is_own) STORE_PUBLISHED(done + block, 1u);")}
}
<%def name="fetch_tile(k)">${parts.fetch(e, along, f"l + first_row * l_row + 64l * ({k}) * l_col", "l_row", "l_col", "left", f"(c - 64 * ({k}))")}</%def>
<%def name="fetch_below(k)">${parts.fetch(e, along, f"factor + (c + {k}) * leading + last - first_row", "l_row", "leading", "left", f"(u - ({k}))")}</%def>
