## gemm on a CPU, after Goto and van de Geijn: C = epilogue(alpha * A @ B + beta * C).
##
##         B | panel of NR columns | ...            A and B are packed into panels, and each
##     A     +---------------------+                work-item makes register tiles of C.
##   panel   | tile | tile | ...   |                Work-groups run x first: `block` panels of A
##   of MR   | tile | ...          |                stay in the L2 cache while panels of B are read,
##   rows    | ...                 |                and each panel of B is used `block` times.
##
##   pack    one work-item packs `chunk` steps of `group` panels
##           range: (work-items for A and for B, products)
##   tiles   one work-item computes `panels_each` tiles of one row of tiles over its share of k, `visit_steps` steps
##           of each at a time (few if B is not packed, so that its rows are read contiguously)
##           range: (block, panels of B / panels_each, blocks of A's panels x share_count x products)
##   a_packed, b_packed: whether `tiles` reads the operand packed, or in place (if it is one of `direct`: _packed_tile)
##
## The `depth` steps of k are divided into `shares` shares of share_steps steps (the last may be short).  One launch of
## tiles computes share_count shares from first_share on, each with its own sums.
##
##   packed_a, packed_b   panel p of share s of product t starts at real ((t * shares + s) * panels + p) * share_steps
##                        * W; W: reals of a step of a panel (_pack), MR * C of A, NR * C of B
##   partial              unfinished sums: share after share, of each the products, of each the tiles by rows, TILE
##                        reals each.  `parts` of them are added to a tile; with `finish` it is then stored in C
##
## row, col: where the launch's part of C begins.  over, under: in row r only the columns from r - under to r + over are
## computed (a triangle).  common_a, common_b: whether the operand is the same for every product, and packed once.
## first: the number of the launch's first product in the batch.  MR, NR: rows and columns of a tile; C: reals of an
## element.
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="packed" file="/gemm/_packed.cl.mako"/>
<%
    compute, rank = problem.compute, len(problem.batch)
    MR, NR, C = policy.item_m, policy.item_n, problem.compute.components
    names = ["a", "b", "c", *(f"e{i}" for i in range(len(problem.extras)))]
%>
${packed.functions(problem, policy, "any")}
// The first work-items pack A, the others B.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("pack")}
{
    packed_a += packed_a_offset, packed_b += packed_b_offset;
    const long items_a = (panels_a + group_a - 1) / group_a * ((share_steps + chunk_a - 1) / chunk_a) * shares;
    const bool is_a = (long)get_global_id(0) < items_a;
    const long id = is_a ? get_global_id(0) : get_global_id(0) - items_a, item = get_global_id(1);
    const long chunk = is_a ? chunk_a : chunk_b, group = is_a ? group_a : group_b;
    const long panels = is_a ? panels_a : panels_b, chunks = (share_steps + chunk - 1) / chunk;
    // id is (group of panels * shares + share) * chunks + chunk.  step: where the chunk begins along k.
    const long step_in_share = id % chunks * chunk, share_index = id / chunks % shares;
    const long first_panel = id / chunks / shares * group, last = LEAST(first_panel + group, panels);
    const long step = share_index * share_steps + step_in_share;
    const int steps = LEAST(LEAST(chunk, share_steps - step_in_share), depth - step);
    if (steps <= 0 || (item && (is_a ? common_a : common_b))) return;
    ${operands.locate(["a", "b"], rank, "(first + item)")}
    const long panels_before = (item * shares + share_index) * panels;  // of other shares
% for x, lanes, P, lane_stride, step_stride in (("a", "m", MR, "a_row", "a_col"), ("b", "n", NR, "b_col", "b_row")):
    for (long p = first_panel; p < last && ${"is_a" if x == "a" else "!is_a"}; p++)
        pack_${x}(${x} + p * ${P} * ${lane_stride} + step * ${step_stride}, ${lane_stride}, ${step_stride},
                  LEAST((long)${P}, ${lanes} - p * ${P}), steps,
                  packed_${x} + ((panels_before + p) * share_steps + step_in_share) * ${P * C});
% endfor
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("tiles")}
{
    packed_a += packed_a_offset, packed_b += packed_b_offset;
    const long panels_a = (m + ${MR - 1}) / ${MR}, panels_b = (n + ${NR - 1}) / ${NR};
    // p: the panel of A.  part: the share's number among those of the launch.
    const long blocks = (panels_a + block - 1) / block;
    const long p = get_global_id(2) % blocks * block + get_global_id(0);
    const long part = get_global_id(2) / blocks % share_count, share_index = first_share + part;
    const long item = get_global_id(2) / blocks / share_count;
    if (p >= panels_a) return;
    const long below = row + p * ${MR} - col;  // how far the first tile's first element is below the diagonal
    const long steps_left = depth - share_index * share_steps;
    const int steps = steps_left < share_steps ? steps_left : share_steps, rows = LEAST((long)${MR}, m - p * ${MR});
    ${operands.locate(names, rank, "(first + item)")}
    __global const real_t *pa = packed_a + (((common_a ? 0 : item) * shares + share_index) * panels_a + p) * share_steps
        * ${MR * C};
    long a_step = ${MR * C}, b_step = ${NR * C};
% if "a" in direct:
    if (!a_packed) pa = a + p * ${MR} * a_row + share_index * share_steps * a_col, a_step = a_col;
% endif
% if "b" in direct:
    if (!b_packed) b_step = b_row;
% endif
    // The panels q of B that this work-item multiplies, from `start` to before `last`.
    const long first_q = (long)get_global_id(1) * panels_each, start = MOST(first_q, (below - under) / ${NR});
    const long last = LEAST(LEAST(panels_b, first_q + panels_each), (below + over + rows + ${NR - 1}) / ${NR});
    for (int done = 0; done == 0 || done < steps; done += visit_steps)
        for (long q = start; q < last; q++) {
            // If B is not packed, the last tile starts `skip` columns earlier, so that it is inside of B.
            const int skip = !b_packed && (q + 1) * ${NR} > n ? (q + 1) * ${NR} - n : 0;
            const long tile_col = q * ${NR} - skip;
            __global const real_t *pb = packed_b + (((common_b ? 0 : item) * shares + share_index) * panels_b + q)
                * share_steps * ${NR * C};
% if "b" in direct:
            if (!b_packed) pb = b + tile_col + share_index * share_steps * b_row;
% endif
            // B is prefetched 16 steps ahead, or, in place, by 256 bytes of each row.
            tile(pa + done * a_step, a_packed, a_row, a_step, pb + done * b_step, b_step,
                 b_packed ? ${16 * NR * compute.itemsize} : 256, LEAST(visit_steps, steps - done),
                 done ? 1 : parts, partial + (((part * products + item) * panels_a + p) * panels_b + q) * TILE,
                 products * panels_a * panels_b * TILE, finish && done + visit_steps >= steps, row + p * ${MR},
                 col + tile_col, rows, skip, LEAST((long)${NR}, n - tile_col), c, c_row, c_col, alpha,
                 beta, over, under${epilogue.passed(problem)});
        }
}
