## Factorise the own columns of assembled fronts in one launch, on a GPU: a work-group of 256 for each tile of 64 x 64
## elements of a panel.
##
##           s ->                   V = F(s, f) - sum over the own columns k of blocks before s of L(s, k)^* L(f, k)^T,
##       +-----+                    then V = D^-1 V, with D = L(s, s).  The algorithm and its parts (P, Q, D, flags) are
##    f  | own |                    those of factor/tiles.
##    |  +-----+
##    v  |     |                    Blocks of rows and columns: see _blocks
##       +-----+
## groups, all_flags   the number of groups, and that of flags, of all fronts
## tiles     for each ticket: front, s, f, and the start of its front's flags; a tile has a higher ticket than all tiles
##           that it depends on
## report    for each front, the first own column whose pivot is not positive, or -1, and the bits of that pivot
## e         Element            mma   whether products are by matrix instructions (float64)
## item_rows, panels   see factor/_tile and factor/_panels.  The arguments of the parts of factor/ are those of
##           factor/tiles with `factorise`, in place, for an L that is stored by rows.
## The variables s to v, and those that tile.memory declares, are what the parts of factor/ have in scope: factor/_tile
## lists them.
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="factors" file="/factor/_tile_factor.cl.mako"/>
<%namespace name="products" file="/factor/_tile_products.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="solve" file="/factor/_tile_solve.cl.mako"/>
<%namespace name="memory" file="/factor/_tile_store.cl.mako"/>
<%namespace name="tickets" file="/factor/_tickets.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%namespace name="blocks" file="/fronts/_blocks.cl.mako"/>
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
<%include file="/subgroup/warp_barrier.cl.mako"/>
${tile.define()}

__kernel ${group.of_size(256)}
void ${kernel("tiles")}
{
    ${tile.memory()}
    const int4 task = tiles[ticket];
    const int s = task.y, f = task.z, first = 0;
${front_.front("task.x", only=("columns", "rows", "panel", "leading"))}
    ${blocks.sizes()}
    factor += factor_offset;
    report += report_offset + 2l * task.x;
    ${blocks.tile()}
    __global ${e.name}_t *v = factor + panel;
    __global const ${e.name}_t *l = v;
    const long l_row = leading, l_col = 1, v_row = 1, v_col = leading;
    volatile __global uint *done = counters + 2 + task.w;
    const int needed_steps = s;
    value_t ${", ".join(f"v{i}_{j}" for i in range(item_rows) for j in range(16 // item_rows))};
    ${products.input("v")}
    ${products.all()}
    if (s == f) {
        ${factors.factorise_tile()}
    } else {
        ${solve.solve_tile()}
        ${memory.store()}
    }
    ${tickets.finish()}
}
