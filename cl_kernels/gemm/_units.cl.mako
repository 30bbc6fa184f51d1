## For wgmma, mma and mfma: the loop of a group over its units of the launch, and the store of sums to C.  A unit is a
## tile of a product, or a part of a tile if k is split:
##
##   units   | of product 0: the first `unsplit` tiles | part 0 of the other tiles | part 1 | ... | of product 1: ...
##
## split_tiles: the number of the other tiles.  In scope: the kernel's arguments (units: their number), split, policy.
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
## An expression: the number of a unit's product in the launch.  partly: see `loop`.
<%def name="product(problem, partly)">\
unit / (${"unsplit + split_tiles * splits" if partly else triangle.area(problem)})${"" if partly else " / splits"}\
</%def>

## RESULT(acc, row, col) is the new value of C at (row, col), and STORE(p, v) stores it.
## of_values: also define EPILOGUE_OF_VALUES (see common/epilogue)
<%def name="results(problem, of_values=False)">
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
${epilogue.define(problem, of_values)}
${epilogue.result(problem)}
#define STORE(p, v) ${problem.c.elem.name}_store(p, v)
</%def>

## STORE_PAIR(p, x, row, col, v, w) stores two neighbouring sums of a row: v at column col + x, and w right of it.  p
## points to (row, col), from which on `columns` columns exist.  The code is short, because the instructions of a store
## run once a tile and are seldom in the instruction cache.  pair says how both are stored:
##   ""          by two accesses
##   "columns"   by one, because C's columns are contiguous, aligned and of even length; w is below v, at row + 1
##   others      by one, STORE_TWO, because C's rows are so
<%def name="define(problem, pair, of_values=False)">
${results(problem, of_values)}
% if not pair:
#define STORE_PAIR(p, x, row, col, v, w) do { \
        if ((x) < columns) STORE(p + (x) * c_col, RESULT(v, row, (col) + (x))); \
        if ((x) + 1 < columns) STORE(p + ((x) + 1) * c_col, RESULT(w, row, (col) + (x) + 1)); \
    } while (0)
% elif pair == "columns":
#define STORE_PAIR(p, x, row, col, v, w) do { \
        if ((x) < columns) STORE_TWO(p + (x) * c_col, RESULT(v, row, (col) + (x)), RESULT(w, (row) + 1, (col) + (x))); \
    } while (0)
% else:
#define STORE_PAIR(p, x, row, col, v, w) do { \
        if ((x) < columns) STORE_TWO(p + (x), RESULT(v, row, (col) + (x)), RESULT(w, row, (col) + (x) + 1)); \
    } while (0)
% endif
% if pair and problem.c.elem.itemsize > 2:
#define STORE_TWO(p, v, w) (*(__global ${problem.compute.real}2 *)(p) = (${problem.compute.real}2)(v, w))
% elif pair:
static inline uint packed_pair(float v, float w)
{
    uint bits;
    asm("cvt.rn.${problem.c.elem.name}x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(w), "f"(v));
    return bits;
}
#define STORE_TWO(p, v, w) (*(__global uint *)(p) = packed_pair(v, w))
% endif
</%def>

## The head of the loop over a group's units.  It declares first_row, first_col, k_first, part, length (elements of k),
## steps (of `depth` elements of k), and the pointers `names` to the operands of the unit's product.  types: the C types
## to which these point.  once: whether a group has one unit, and so no loop, which would need registers.  partly:
## whether only the tiles after the first `unsplit` of a product are split, as in the picture; otherwise all are.  With
## `partly`, split_tiles and parts, the number of the tile's parts, are declared too.
<%def name="loop(policy, names, types, problem, depth, once, partly=False)">
${pointers(names, types)}\
% if once:
        {
            const int unit = get_group_id(0);
% else:
        for (int unit = get_group_id(0); unit < units; unit += get_num_groups(0)) {
% endif
% if split and partly:
            // number: among the product's parts of tiles; negative for a tile that is not split.
            const int split_tiles = ${triangle.area(problem)} - unsplit,
                number = unit % (unsplit + split_tiles * splits) - unsplit;
            const int tile = number < 0 ? number + unsplit : unsplit + number % split_tiles;
            const int part = number < 0 ? 0 : number / split_tiles, parts = number < 0 ? 1 : splits;
% elif split or problem.batch:
            const int tile = unit % (${triangle.area(problem)}), part = unit / (${triangle.area(problem)}) % splits;
% else:
            const int tile = unit, part = 0;
% endif
${place(policy, problem)}\
            const long k_first = part * k_split;
            const long length = min(${"parts == 1 ? k : k_split" if split and partly else "k_split"}, k - k_first);
            const int steps = (int)((length + ${depth - 1}) / ${depth});
${begin(names, types, problem, "first_product + " + capture(product, problem, split and partly))}
</%def>

## The parts of such heads, which declare: (pointers) the start of each operand; (place) first_row and first_col of the
## tile with the number `tile`; (begin) the pointers to the operands of the product with the given number.  Tiles are
## numbered down bands of policy.band tile rows, so that groups that run at the same time share cache lines.
<%def name="pointers(names, types)">\
% for name in names:
        __global ${types[name]} *const ${name}_start = ${name} + ${name}_offset;
% endfor
</%def>
<%def name="place(policy, problem)">\
% if problem.triangle:
${triangle.locate(problem, policy)}\
% else:
            const uint band = (uint)tile / (uint)(${policy.band} * tiles_n),
                in_band = tile - band * (${policy.band} * tiles_n);
            const uint rows = min(${policy.band}u, tiles_m - band * ${policy.band});
            const uint tile_col = rows == ${policy.band} ? in_band / ${policy.band} : in_band / rows;
            const long first_row = ${policy.tile_m}l * (band * ${policy.band} + in_band - tile_col * rows);
            const long first_col = ${policy.tile_n}l * tile_col;
% endif
</%def>
<%def name="begin(names, types, problem, number)">\
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
% for name in names:
            __global ${types[name]} *${name} = ${name}_start;
% endfor
${operands.advance(names, len(problem.batch), number)}
</%def>

## Declare `product`, the number of the unit's product in the launch, for kernels that split k.
<%def name="declare_product(partly=False)">            const int product = ${product(problem, partly)};</%def>

## Declare `tail`, the number of elements of the last step that exist, out of `depth`.
<%def name="declare_tail(depth)">            const int tail = (int)(length - ${depth}l * (steps - 1));</%def>
