## The factorisation of a diagonal tile, V = D D^H, in factor/tiles and fronts/tiles.  _tile has the variables in scope;
## `first` is the column of the matrix (of the front) at which its first tile begins.
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="solve" file="/factor/_tile_solve.cl.mako"/>
<%namespace name="panel" file="/factor/_panels.cl.mako"/>
<%namespace name="memory" file="/factor/_tile_store.cl.mako"/>

## Factorise V, L's diagonal tile, in steps q of R rows of D^H.  In each step, every lane of the sub-group that holds
## the next R rows factorises the R x R elements at their diagonal (`corner`, in local memory), and solves for its
## columns.  `failed`: the first column without a positive pivot, or 64; from it on results are NaN.
##
##   corner      by rows, item_rows x item_rows elements: row i is row item_rows q + i of V
##   c<i>_<j>    the same in registers, j >= i, which become a square of D^H except its diagonal, of which scale<k>
##               are the reciprocals
##   c<i>s<j>    four real elements of row i of the corner, from column 4 j on, which are read as one vector
<%def name="factorise_tile()">\
for (int q = 0; ${item_rows} * q < left_s; ++q) {
            __local value_t *shared_rows = solved + (q & 1) * ${68 * item_rows};
            if (y == q && x / ${item_rows} == q % 4) {
% for part in range(16 // item_rows):
                if (q / 4 == ${part}) {
% for i in range(item_rows):
                    corner[${item_rows * i} + x % ${item_rows}] = v${i}_${part};
% endfor
                }
% endfor
            }
            SUBGROUP_SYNC();
            if (y == q) {
% for i in range(item_rows):
% if problem.elem.complex:
                value_t ${", ".join(f"c{i}_{j} = corner[{item_rows * i + j}]" for j in range(i, item_rows))};
% else:
                const real4_t ${", ".join(f"c{i}s{j} = *(__local const real4_t *)(corner + {item_rows * i + 4 * j})"
                    for j in range(i // 4, item_rows // 4))};
                value_t ${", ".join(f"c{i}_{j} = c{i}s{j // 4}.s{j % 4}" for j in range(i, item_rows))};
% endif
% endfor
% for k in range(item_rows):
                const real_t pivot${k} = REAL(c${k}_${k});
                if (!(pivot${k} > 0 && pivot${k} < (real_t)INFINITY) && failed == 64) {
                    failed = ${item_rows} * q + ${k};
                    bad_pivot = pivot${k};
                }
                const real_t scale${k} = failed == 64 ? rsqrt(pivot${k}) : (real_t)NAN;
% for j in range(k + 1, item_rows):
                c${k}_${j} *= scale${k};
% endfor
% for i in range(k + 1, item_rows):
% for j in range(i, item_rows):
                SUBTRACT(c${i}_${j}, CONJ(c${k}_${i}), c${k}_${j});
% endfor
% endfor
% endfor
                ${solve.substitute(lambda i, k: f"CONJ(c{k}_{i})" if i > k else f"AS_VALUE(scale{k})")}
                ${solve.share_rows()}
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (y > q) {
                ${panel.subtract("v", "shared_rows", "shared_rows", item_rows, "CONJ")}
            }
            if (y == q) {
                ${memory.store_item_rows(True)}
                ${waiting.release_without_barrier()}
            }
            // Publish the rows of earlier steps; work-item 0 holds none of the remaining rows from step 1 on.
            if (t == 0 && q > 0 && q % ${16 // item_rows} == 0) {
                ${waiting.set("done + f * (f + 1) / 2 + f", f"(uint)q / {16 // item_rows}")}\
            }
        }
        if (failed < 64 && x == 0) atomic_min(&first_failed, failed);
        ${waiting.module.BARRIER}  // orders the flag after the releases in the loop
        if (t == 0) {
            ${waiting.set("done + f * (f + 1) / 2 + f", "4u")}\
        }
        // The work-item that has found the first failure of the tile reports it, if no tile before it has reported one.
        // If there is none, work-item 0 of the first tile reports that.
        const bool reports = failed < 64 ? failed == first_failed && (first + s0 == 0 || report[0] < 0)
            : t == 0 && first_failed == 64 && first + s0 == 0;
        if (x == 0 && reports) {
            report[0] = first_failed < 64 ? first + s0 + first_failed : -1;
            report[1] = ${"as_long(bad_pivot)" if problem.elem.needs_fp64 else "(long)as_int(bad_pivot)"};
        }
</%def>
