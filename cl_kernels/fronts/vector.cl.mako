## Solve with the panels of some fronts for few right-hand sides, in one launch, on a GPU.  There is a work-group of 256
## for each block of 64 rows of a front and each right-hand side.  A group waits for the blocks on which it depends,
## whose groups have lower tickets: see factor/_vector and group/cells.
##
##          forward: Y = L^-1 B                         backward: X = L^-H Y
##      +-----+                                     +-----+
##   c  | L11 |   f = b + contributions             | L11 |     x_c = L11^-H (y_c - L21^H x_u)
##      +-----+   y = L11^-1 f_c                    +-----+
##   u  | L21 |   contribution = f_u - L21 y        | L21 |     x_u is known: its rows are columns of ancestors
##      +-----+                                     +-----+
## The backward solve is a forward solve with the columns in reverse order: block 0 has the last columns, and element
## (i, k) of the reversed L11 is that of the rows and columns last - k and last - i.
##
## Names in the kernel: v_t, element t of f or of y_c in work-item t < 64; first_row, the block's first row; left, its
## number of rows; cell, the pointer to the front's cells; l and y, with strides l_row, l_col and y_row, in elements.
##
## tasks          for each block of rows: front, block, and the number of own blocks of the fronts before; a group's
##                ticket is task * count + right-hand side
## x              n x count, row-major, in the permuted numbering
## contributions  (forward) those of a front are stored from row contribution_start[front] on
## addends        (forward) for each row of a front, from its addends_start on: the rows of contributions that it adds
## groups, cells  the number of groups, and of cells (one for each 4 bytes of an element of X)
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="cells" file="/group/cells.cl.mako"/>
<%namespace name="diagonal" file="/factor/_vector_diagonal.cl.mako"/>
<%namespace name="parts" file="/factor/_vector.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
along, words = not backward, e.itemsize // 4  # words: cells of an element
conj = "CONJ" if backward and e.complex else ""

# C texts for the defs of factor/_vector.  Of the tile of L at column block k, and of the part of L21 from its row k on:
# the pointer, the strides, and the numbers of rows and of k.
def tile_of(k):
    return f"l + first_row * l_row + 64l * {k} * l_col", "l_row", "l_col", "left", f"(c - 64 * {k})"

def below(k):
    return f"factor + (c + {k}) * leading + last - first_row", "l_row", "leading", "left", f"(u - {k})"

# The cell of this work-item's element of block k; whether that element exists.
def cell(k):
    return f"cell + {words} * (64 * {k} + t)"

def has_x(k):
    return f"64 * {k} + t < c"
%>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.reciprocal(e)}
${numbers.parts(e)}
${tile.subtraction(e)}
${cells.define(e)}
<%include file="/subgroup/warp_barrier.cl.mako"/>

__kernel ${group.of_size(256)}
void ${kernel("vector")}
{
    ${parts.declare(along)}
    __local uint ticket;
    const int t = get_local_id(0);
    if (t == 0) ticket = ${waiting.ticket()};
    barrier(CLK_LOCAL_MEM_FENCE);
    const int4 task = tasks[ticket / count];
    const long s = task.x, r = ticket % count;
    const int block = task.y;
${front_.front("s", only=("columns", "rows", "panel", "leading", "row_start", "first"))}
    const int c = (int)columns, u = (int)rows, blocks = (c + 63) / 64, steps = min(block, blocks);
    volatile __global ulong *cell = ${cells.cell(f"{64 * words} * (task.z * count + r * blocks)")};
    factor += factor_offset + panel;
    x += x_offset + r;
% if backward:
    const int first_row = 64 * block, left = min(c - first_row, 64);
    const long last = c - 1, l_row = -1, l_col = -leading, y_row = -count;
    __global const ${e.name}_t *l = factor + last * (leading + 1);
    __global ${e.name}_t *y = x + (first + last) * count;
    if (t < left) v_t = ${e.name}_load(y + (first_row + t) * y_row);
    ${diagonal.load_diagonal(e, along, "l + first_row * (l_row + l_col)", "l_row", "l_col", "left", conj, False)}
    ${parts.below(e, along, conj, below)}
% else:
    contributions += contributions_offset + r;
    const bool is_own = block < blocks;
    const int first_row = is_own ? 64 * block : c + 64 * (block - blocks),
        left = min((is_own ? c : c + u) - first_row, 64);
    const long l_row = leading, l_col = 1, y_row = count;
    __global const ${e.name}_t *l = factor;
    __global ${e.name}_t *y = x + first * count;
    if (t < left) {
        if (is_own) v_t = ${e.name}_load(y + (first_row + t) * y_row);
        __global const int *start = addends_start + first + row_start + first_row + t;
        for (int k = start[0]; k < start[1]; ++k) v_t += ${e.name}_load(contributions + addends[k] * count);
    }
    if (is_own) {
        ${diagonal.load_diagonal(e, along, "l + first_row * (l_row + l_col)", "l_row", "l_col", "left", conj, False)}
    } else
        y = contributions + (contribution_start[s] - c) * count;
% endif
    ${parts.known(e, along, conj, tile_of, has_x, cell)}
    ${parts.subtract(along)}
% if not backward:
    if (!is_own) {
        if (t < left) ${e.name}_store(y + (first_row + t) * y_row, v_t);
    } else
% endif
    {
        ${diagonal.substitute()}
% for h in range(2):
        if (t < 32 && t + ${32 * h} < left) {
            publish(${cell("block")} + ${32 * h * words}, x_half${h});
            ${e.name}_store(y + (first_row + t + ${32 * h}) * y_row, x_half${h});
        }
% endfor
    }
    ${cells.finish("ticket", "groups", "cells")}
}
