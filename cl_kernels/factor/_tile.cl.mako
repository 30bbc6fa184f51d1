## A group of 256 work-items and its tile V of 64 x 64 elements, in factor/tiles and in tiles, solve and update of
## fronts.  The work-items are a grid of 64 / R rows y by 4 R columns x, where R is the argument item_rows, 4 or 8.
## Work-item (y, x) holds in register v<i>_<j> V's element in row R y + i and column x + 4 R j.
##
## The files _mma_products, _pair, _panels, _plain_products, _sums, _tickets, _tile_factor, _tile_products, _tile_solve
## and _tile_store have parts of these kernels.  They take the arguments of the templates (tiles), and the variables:
##
##   t, y, x              the number of the work-item; its row and column in the grid
##   s, f                 the numbers of V's blocks of 64 rows and of 64 columns
##   s0, f0               V's first row and column; left_s, left_f: how many rows and columns exist, at most 64
##   l, l_row, l_col      the pointer to L (or to the front's panel), and its strides in elements
##   v, v_row, v_col      the pointer to the array of V, and its strides; if V is a part of L, V(s, f) is L's (f, s)
##   p_part, q_part, solved   local memory: the panels of P and of Q (_panels), and rows of V that are solved
##   corner               local memory: the R x R elements on the diagonal that are factorised
##   p_now, q_now         the current ones of the panels in p_part and q_part
##   ticket, ready_end    local memory: the group's ticket; up to which step other tiles are done
##   done                 the pointer to the flags of the matrix (_tickets)
##   needed_steps         the number of steps of k, 64 each, that V depends on
##   w<i>_<j>, has_diagonal, first_remaining     of a pair (_pair)
##   failed, bad_pivot    the first column of the tile without a positive pivot, or 64, as this work-item has found it,
##                        and that pivot; first_failed: local memory, the least `failed` of all work-items
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%!
# Conditions for element (row, col) of a tile in the block of rows s or f (the argument s is "s" or "f"): it is on the
# diagonal of V; it is not above L's diagonal, whose elements V has transposed.
def on_diagonal(s):
    return "row == col" if s == "f" else "s == f && row == col"

def in_triangle(s):
    return "row <= col" if s == "f" else "(s < f || row <= col)"
%>
## Macros: VALUE_OF_P(v), which conjugates elements of P where needed, and SUBTRACT(v, p, q): v -= p q.
<%def name="define()">
#define VALUE_OF_P(v) ${"CONJ(v)" if conj else "(v)"}
${subtraction(problem.elem)}
</%def>
<%def name="subtraction(e)">
% if e.complex:
#define SUBTRACT(v, p, q) (v.x = v.x - (p).x * (q).x, v.y = v.y - (p).x * (q).y, \
                           v.x = v.x + (p).y * (q).y, v.y = v.y - (p).y * (q).x)
% else:
#define SUBTRACT(v, p, q) (v = v - (p) * (q))
% endif
</%def>

## Set v to C, the tile of `source`, whose strides are source_row and source_col.  Beyond the matrix V is extended by
## the unit matrix, and above L's diagonal it is 0.  For the second tile of a pair the arguments v and s are "w" and
## "f".
<%def name="input(source, v='v', s='s')">\
% for i in range(item_rows):
% for j in range(16 // item_rows):
    {
        const int row = ${item_rows} * y + ${i}, col = x + ${4 * item_rows * j};
        ${v}${i}_${j} = AS_VALUE(${on_diagonal(s) if factorise else "0"});
        if (row < left_${s} && col < left_f${f" && {in_triangle(s)}" if factorise else ""})
            ${v}${i}_${j} = ${problem.elem.name}_load(${source} + (${s}0 + row) * ${source}_row
                + (f0 + col) * ${source}_col);
    }
% endfor
% endfor
</%def>

## Declare the local memory of a group, t, y and x, and take a ticket.
<%def name="memory()">\
__local value_t p_part[${16 * 68 * panels}] __attribute__((aligned(32)));
    __local value_t solved[${(16 if paired else 2 * item_rows) * 68}] __attribute__((aligned(32)));
    __local value_t q_part[${16 * 68 * panels}] __attribute__((aligned(32)));
    __local uint ticket;
    __local int ready_end;
% if paired and not mma:
    __local int first_remaining;  // the first row of V that is not yet subtracted from W
% endif
% if factorise:
    __local value_t corner[${item_rows * item_rows}] __attribute__((aligned(32)));
    int failed = 64;
    real_t bad_pivot = 0;
    __local int first_failed;
% endif
    const int t = get_local_id(0), y = t / ${4 * item_rows}, x = t % ${4 * item_rows};
    if (t == 0) {
        ticket = ${waiting.ticket()};
% if paired and not mma:
        first_remaining = 64;
% endif
% if factorise:
        first_failed = 64;
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
