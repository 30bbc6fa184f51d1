## Solve with the panels of some fronts for many right-hand sides, in one launch, on a GPU: Y = L^-1 B, or (backward)
## X = L^-H Y.  There is a work-group of 256 for each tile of 64 rows of a front and 64 right-hand sides.
##
##          f ->
##      +-----+-----+        V = C - sum over solved k of P(s, k) Q(k, f); for own columns then V = D^-1 V.
##    s |  V  |     |        P, Q, D, tickets and flags are as in factor/tiles; P and D are in the panel, Q is in X.
##      +-----+-----+        A front has c own columns in `blocks` blocks; forward, blocks of the u rows below follow.
##                           C: rows of B, with the children's contributions, or (backward) of Y.
##
## tiles_f         tiles of 64 right-hand sides, of which there are `count`; a group's ticket is task * tiles_f + f
## tasks           for each block of rows: x, the front; y, block s; w, the number of all blocks of the fronts before
## counters        | next ticket | groups that are done | flag of tile (0, 0) of task 0's front | (0, 1) | ...
## x_all           n x count, row-major, in the permuted numbering
## contribution_start     (forward) for each front: the first row of its contribution in `contributions`
## addends, addends_start (forward) to row i of a front the rows addends[k] of `contributions` are added, for k from
##                 addends_start[j] to addends_start[j + 1] - 1, where j is first + row_start + i of this front
## p_part, q_part  `panels` panels of 16 steps of k by 64 elements each (factor/_panels)
## e, mma          Element; whether products are by matrix instructions (float64)      backward   which solve
## item_rows       rows of V of a work-item.  factor/_tile explains the variables that this kernel shares with the
##                 parts of factor/: s, f, l, v, p_part ...
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="sums" file="/factor/_sums.cl.mako"/>
<%namespace name="memory" file="/factor/_tile_store.cl.mako"/>
<%namespace name="products" file="/factor/_tile_products.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="solve" file="/factor/_tile_solve.cl.mako"/>
<%namespace name="tickets" file="/factor/_tickets.cl.mako"/>
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.reciprocal(e)}
${numbers.parts(e)}
% if mma:
${matrix.define()}
% endif
% if not e.complex:
typedef ${e.real}4 real4_t;
% endif
${tile.define()}

__kernel ${group.of_size(256)}
void ${kernel("solve")}
{
    __local value_t p_part[${16 * 68 * panels}] __attribute__((aligned(32)));
    __local value_t solved[${2 * item_rows * 68}] __attribute__((aligned(32)));
    __local value_t q_part[${16 * 68 * panels}] __attribute__((aligned(32)));
    __local uint ticket;
    __local int ready_end;
    const int t = get_local_id(0), y = t / ${4 * item_rows}, x = t % ${4 * item_rows};
    if (t == 0) ticket = ${waiting.ticket()};
    barrier(CLK_LOCAL_MEM_FENCE);
    const int4 task = tasks[ticket / tiles_f];
    const int s = task.y, f = (int)(ticket % tiles_f);
${front_.front("task.x", only=("columns", "rows", "panel", "leading", "row_start", "first"))}
    const int c = (int)columns, u = (int)rows, blocks = (c + 63) / 64;
    volatile __global uint *done = counters + 2 + (long)task.w * tiles_f;
    const bool is_own = s < blocks;
    const int needed_steps = min(s, blocks), f0 = 64 * f, s0 = is_own ? 64 * s : c + 64 * (s - blocks);
    // Rows s0 and columns f0 of X begin the tile; left_s and left_f of them exist.
    const int left_s = min((is_own ? c : c + u) - s0, 64), left_f = (int)min(count - f0, 64l);
    const uint all_flags = groups;
    factor += factor_offset + panel;
    x_all += x_all_offset;
% if backward:
    // Own columns in reverse order: element (i, k) of the reversed factor is L(last - k, last - i).  `below` points to
    // the element of the first row below in the last own column.
    const long last = c - 1, l_row = -1, l_col = -leading, v_row = -count, v_col = 1;
    __global const ${e.name}_t *l = factor + last * (leading + 1), *below = factor + c * leading + last;
    __global ${e.name}_t *v = x_all + (first + last) * count;
    __global const int *row = row_index + row_start;
% else:
    const long l_row = leading, l_col = 1, v_row = count, v_col = 1;
    __global const ${e.name}_t *l = factor;
    __global ${e.name}_t *v = x_all + first * count;
    contributions += contributions_offset;
% endif
    value_t ${", ".join(f"v{i}_{j}" for i in range(item_rows) for j in range(16 // item_rows))};
% for i in range(item_rows):
% for j in range(16 // item_rows):
    v${i}_${j} = (value_t)(0);
    if (is_own && ${exists(i, j)}) v${i}_${j} =
        ${e.name}_load(v + (s0 + ${item_rows} * y + ${i}) * v_row + f0 + x + ${4 * item_rows * j});
% endfor
% endfor
% if not backward:
    __global const int *start = addends_start + first + row_start + s0;
% for i in range(item_rows):
    if (${item_rows} * y + ${i} < left_s) {
        const int end = start[${item_rows} * y + ${i + 1}];
        for (int k = start[${item_rows} * y + ${i}]; k < end; ++k) {
            __global const ${e.name}_t *contribution = contributions + addends[k] * count + f0 + x;
% for j in range(16 // item_rows):
            if (x + ${4 * item_rows * j} < left_f) v${i}_${j} += ${e.name}_load(contribution + ${4 * item_rows * j});
% endfor
        }
    }
% endfor
% endif
% if not e.complex:
    ${sums.declare()}
    ${sums.sums()}
% endif
    ${products.all(below=backward, has_input=True)}
    if (is_own) {
        ${solve.solve_tile()}
    }
% if not backward:
    if (!is_own) v = contributions + (contribution_start[task.x] - c) * count;
% endif
    ${memory.store()}
    ${tickets.finish()}
}
## An expression: whether element v<i>_<j> of this work-item exists.
<%def name="exists(i, j)">${item_rows} * y + ${i} < left_s && x + ${4 * item_rows * j} < left_f</%def>
