## tiles: factorise, or solve, `count` matrices in one launch, on a GPU.  There is a work-group of 256 for each tile of
## 64 x 64, in an order of dependences.  C is A, or B.
##
##   A = L L^H                      X = L^-1 B                     for a tile at (s, f):
##
##       s  ->                          f ->                         V = C - sum over k of P(s, k) Q(k, f)
##     +-----+                        +-----+-----+                  V = D^-1 V
##   f |  0  |                      s |  0  |  1  |
##   | +-----+-----+                | +-----+-----+
##   v |  1  |  1  |                v |  2  |  3  |
##     +-----+-----+-----+            +-----+-----+
##     |  2  |  3  |  3  |          P: L's rows s         Q: X's columns f
##     +-----+-----+-----+          D: L's diagonal tile s
##   P: L's rows s, conjugated        Q: L's rows f
##   D: L's diagonal tile s, conjugated; if s = f it is computed from V
##   The number in a tile is the ticket of its group.  Of a factor, two tiles with one number are a pair (_pair).
##
## A group waits for tiles of groups with lower tickets only (group/waiting).  A diagonal tile has four parts of 16
## columns.  Its flag is the number of parts that are done, because the tiles below continue with them.
##
## problem     CholeskyProblem or SolveProblem (forwards)     factorise   whether it is a CholeskyProblem
## separate    whether C and V are different arrays; then elements above L become zeros
## unit, conj  whether L has a unit diagonal, and whether P and D are conjugated
## p_along, q_along  whether elements of P, and of Q, that are neighbours along k are neighbours in memory
## by_columns  whether the elements of a column of V are neighbours in memory
## mma         whether products are by matrix instructions (float64)    paired   whether there are pairs
## item_rows   rows of V that a work-item has: see _tile    panels   of each operand in local memory, 1 or 2
## in_fronts, adds   whether this is a kernel of fronts; whether stores add to V (fronts/update): here both are False
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="pair" file="/factor/_pair.cl.mako"/>
<%namespace name="memory" file="/factor/_tile_store.cl.mako"/>
<%namespace name="factor" file="/factor/_tile_factor.cl.mako"/>
<%namespace name="products" file="/factor/_tile_products.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="solve" file="/factor/_tile_solve.cl.mako"/>
<%namespace name="tickets" file="/factor/_tickets.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, rank = problem.elem, len(problem.batch)
names = (["c"] if separate else []) + (["l"] if factorise else ["l", "v"])
%>
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
    const long product = ticket % count, task = ticket / count;
    ${tickets.tile()}
${operands.locate(names, rank, "product")}
% if factorise:
    report += report_offset + 2 * product;
    // V(s, f) is L's element (f, s).
    __global ${e.name}_t *v = l;
    const long v_row = l_col, v_col = l_row;
% if separate:
    const long c_step = c_row;
    c_row = c_col;
    c_col = c_step;
% endif
% endif
    ${"" if paired else "const "}long s0 = 64l * s;
    const long f0 = 64l * f;
    ${"" if paired else "const "}int left_s = (int)min(n - s0, 64l);
    const int left_f = (int)min(m - f0, 64l);
    value_t ${", ".join(f"v{i}_{j}" for i in range(item_rows) for j in range(16 // item_rows))};
% if paired:
    value_t ${", ".join(f"w{i}_{j}" for i in range(item_rows) for j in range(16 // item_rows))};
% endif
% if factorise and separate:
<%
begin = "max(s0, 0l)" if paired else "s0"  # a pair without V has s = -1
end = "has_diagonal ? f0 + 64 : s0 + 64" if paired else "s0 + 64"
%>\
    ${memory.zeros(begin, end)}
% endif
    ${products.input("c" if separate else "v")}
    ${products.all()}
% if paired:
    ${pair.solve_and_factorise()}
% else:
% if factorise:
    if (s == f) {
        ${factor.factorise_tile()}
    } else
% endif
    {
        ${solve.solve_tile()}
        ${memory.store()}
    }
% endif
    ${tickets.finish()}
}
