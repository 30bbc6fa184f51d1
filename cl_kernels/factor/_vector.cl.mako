## For vector and fronts/vector: 64 elements of X = L^-1 b by a group of 256.  steps: the column blocks before this one.
##
##          k ->                      along    L's neighbours along k are neighbours in memory: work-item t
##      +----+                                 has rows t / 8 and t / 8 + 32, and every eighth k from t % 8
##      | D  |                        across   otherwise: row t % 64, and every fourth k from t / 64
##      +----+----+
##   64 |    | D  |                   v = b - sum over k of L(., k) x(k);   x = D^-1 v
##      +----+----+
## A group loads a tile of 64 x 64 elements of L to registers, l0 to l15, before it waits for the x of that tile.
## Groups pass x to others by group/cells.  _vector_diagonal computes x from v.
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%!
# C expressions of the row and of the k of element l{j} of a work-item; the numbers of its sums.
def row(along, j):
    return f"(t / 8 + {j // 8 * 32})" if along else "t % 64"

def step(along, j):
    return f"(t % 8 + {j % 8 * 8})" if along else f"(t / 64 + {4 * j})"

def sums(along):
    return range(2 if along else 1)
%>
## Declare local memory (triangle: D; partial: partial sums; xs: two blocks of x), sums, and elements of L, v and x.
<%def name="declare(along)">\
__local value_t triangle[${64 * 65 // 2}], inverse[64], partial[${64 * (9 if along else 4)}], xs[128], shared_x[64];
    value_t v_t = (value_t)(0), x_half0 = (value_t)(0), x_half1 = (value_t)(0);
    value_t ${", ".join(f"l{j} = (value_t)(0)" for j in range(16))},
        ${", ".join(f"sum{i} = (value_t)(0)" for i in sums(along))};
</%def>

## Load the tile at pointer `l`, of which `rows` rows and `steps` k exist (C expressions).  In the place of missing rows
## the last row is loaded, and its results are not used; elements of missing k are zeros.
<%def name="fetch(e, along, l, l_row, l_col, rows, steps)">\
{
            const int steps_here = ${steps}, last_row = ${rows} - 1;
            __global const ${e.name}_t *tile = ${l};
% for i in sums(along):
            __global const ${e.name}_t *from${i} = tile + min(${row(along, 8 * i)}, last_row) * ${l_row}
                + ${step(along, 0)} * ${l_col};
% endfor
            const long ahead = ${8 if along else 4} * ${l_col};
            if (steps_here >= 64) {
% for j in range(16):
                l${j} = ${e.name}_load(from${j // 8 if along else 0});
                from${j // 8 if along else 0} += ahead;
% endfor
            } else {
% for j in range(16):
                l${j} = ${step(along, j)} < steps_here ? ${e.name}_load(from${j // 8 if along else 0}) : (value_t)(0);
                from${j // 8 if along else 0} += ahead;
% endfor
            }
        }
</%def>

## Add the products of the tile and of x, 64 elements in local memory.  conj: CONJ, or nothing.
<%def name="multiply(along, x, conj)">\
% for j in range(16):
        MAD(sum${j // 8 if along else 0}, ${conj}(l${j}), (${x})[${step(along, j)}]);
% endfor
</%def>

## Subtract the sums, by local memory, from `v_t`, which is element t of v in work-item t < 64.
<%def name="subtract(along)">\
% if along:
    partial[t / 8 * 9 + t % 8] = sum0;
    partial[(t / 8 + 32) * 9 + t % 8] = sum1;
% else:
    partial[t] = sum0;
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < 64)
        for (int j = 0; j < ${8 if along else 4}; ++j) v_t -= partial[${"t * 9 + j" if along else "64 * j + t"}];
</%def>

## Subtract the products of the blocks before this one: tiles 0 to `steps` of columns.  tile(k): the pointer to tile k,
## its strides, and its numbers of rows and of k; has_x(k): whether work-item t has an x of it; cell(k): the cell
## (group/cells) by which that x is published.  is_loaded: whether x_next has the x of the next block.
<%def name="known(e, along, conj, tile, has_x, cell)">\
{
        value_t x_next = (value_t)(0);
        bool is_loaded = false;
        if (steps > 0) ${fetch(e, along, *tile("0"))}
        for (int k = 0; k < steps; ++k) {
            if (t < 64) {
                if (${has_x("k")})
                    ${waiting.wait("!is_loaded", f"is_loaded = is_published({cell('k')}, &x_next);")}\
                xs[(k & 1) * 64 + t] = x_next;
                x_next = (value_t)(0);
                is_loaded = k + 1 < steps && ${has_x("(k + 1)")} && is_published(${cell("(k + 1)")}, &x_next);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            ${multiply(along, "xs + (k & 1) * 64", conj)}
            if (k + 1 < steps) ${fetch(e, along, *tile("(k + 1)"))}
        }
    }
</%def>

## Subtract the products of the u rows below the columns of a front.  Their x are known: the x of row k is element
## row_index[row_start + k] of the whole vector.  tile(k): the pointer to the 64 rows from k on, its strides, and its
## numbers of rows and of k.
<%def name="below(e, along, conj, tile)">\
{
        __global const int *row = row_index + row_start;
        int next_row = t < 64 && t + 64 < u ? row[t + 64] : 0;
        value_t x_next = t < 64 && t < u ? ${e.name}_load(x + row[t] * count) : (value_t)(0);
        if (u > 0) ${fetch(e, along, *tile("0"))}
        for (int k = 0; k < u; k += 64) {
            if (t < 64) {
                xs[(k & 64) + t] = x_next;
                x_next = k + 64 + t < u ? ${e.name}_load(x + next_row * count) : (value_t)(0);
                next_row = k + 128 + t < u ? row[k + 128 + t] : 0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            ${multiply(along, "xs + (k & 64)", conj)}
            if (k + 64 < u) ${fetch(e, along, *tile("(k + 64)"))}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
</%def>
