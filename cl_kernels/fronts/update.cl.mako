## The updates U -= L21 L21^H of factorised fronts, on a GPU: one work-group of 256 for each tile
## of 64 x 64 elements of U.
##
##           s ->                   U(s, f) -= sum over own columns k of L(s, k)^* L(f, k)^T, by the products of
##       +-----+                    factor/tiles.
##       | L11 |
##       +-----+-----+              Blocks of rows and columns: see _blocks.
##    f  | L21 | U   |
##       +-----+-----+
## tiles       for each tile: front, column block s, row block f, and a number that only fronts/tiles reads
## first_tile  the index in `tiles` of the tile of group 0
## e, mma      Element; whether products are by matrix instructions (float64)
## item_rows, panels   see factor/_tile and factor/_panels
## The variables t to v, and those that blocks.tile and blocks.place declare, are what the parts of factor/ have in
## scope: factor/_tile lists them.
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="sums" file="/factor/_sums.cl.mako"/>
<%namespace name="in_place" file="/fronts/_mma_in_place.cl.mako"/>
<%namespace name="memory" file="/factor/_tile_store.cl.mako"/>
<%namespace name="products" file="/factor/_tile_products.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%namespace name="blocks" file="/fronts/_blocks.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.parts(e)}
% if mma:
${matrix.define(wide=False)}
% endif
% if not e.complex:
typedef ${e.real}4 real4_t;
% endif
${tile.define()}

__kernel ${group.of_size(256)}
void ${kernel("update")}
{
    __local value_t p_part[${16 * 68 * panels}] __attribute__((aligned(32)));
    __local value_t q_part[${16 * 68 * panels}] __attribute__((aligned(32)));
    const int t = get_local_id(0);
% if not mma:
    const int y = t / ${4 * item_rows}, x = t % ${4 * item_rows};
% endif
    const int4 task = tiles[first_tile + get_group_id(0)];
    const int s = task.y, f = task.z;
${front_.front("task.x", only=("columns", "rows", "panel", "leading", "update"))}
    ${blocks.sizes()}
    ${blocks.tile()}
    factor += factor_offset;
    arena += arena_offset;
    ${blocks.place(e)}
    __global const ${e.name}_t *l = factor + panel;
    const long l_row = leading, l_col = 1;
% if not mma:
    value_t ${", ".join(f"v{i}_{j} = (value_t)(0)" for i in range(item_rows) for j in range(16 // item_rows))};
% endif
% if not e.complex:
    ${sums.declare()}
    ${sums.sums()}
% endif
    {
        ${products.products("0", "c")}
    }
% if mma:
    ${in_place.subtract_in_place()}
% else:
% if not e.complex:
    ${sums.subtract_sums()}
% endif
    ${memory.store()}
% endif
}
