## The solution of a tile, V = D^-1 V, with the diagonal tile D of its rows, in factor/tiles and in tiles and solve of
## fronts.  _tile has the variables in scope, VALUE_OF_P and SUBTRACT.
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="pair" file="/factor/_pair.cl.mako"/>
<%namespace name="panel" file="/factor/_panels.cl.mako"/>
<%namespace name="memory" file="/factor/_tile_store.cl.mako"/>

## Solve for the R rows of a work-item; d(i, k): C expressions of the elements of their R x R square of D, with
## reciprocals on the diagonal.
<%def name="substitute(d)">\
% for k in range(item_rows):
                {
                const value_t ${", ".join(f"d{i} = {d(i, k)}" for i in range(k, item_rows))};
% for j in range(16 // item_rows):
                v${k}_${j} = MUL(v${k}_${j}, d${k});
% for i in range(k + 1, item_rows):
                SUBTRACT(v${i}_${j}, d${i}, v${k}_${j});
% endfor
% endfor
                }
% endfor
</%def>

## Store the rows of a work-item at shared_rows in local memory, from which all others read them.
<%def name="share_rows()">\
% for i in range(item_rows):
% for j in range(16 // item_rows):
                shared_rows[${i * 68 + 4 * item_rows * j} + x] = v${i}_${j};
% endfor
% endfor
</%def>

## V = D^-1 V, in steps of 16 columns of D, and in these in steps q of R rows of V.  Each step loads 16 columns of D to
## p_part.  D's flag is the number of its columns that are done, divided by 16.  is_fetched: whether the columns of this
## step have already been loaded to p0 ... p3.
<%def name="solve_tile()">\
{
            value_t p0, p1, p2, p3;
            bool is_fetched = false;
            int ready = ${"0" if factorise else "64"};  // columns of D that are done
            for (int from = 0; from < left_s; from += 16) {
% if factorise:
                if (ready < min(from + 16, left_s)) {
                    if (t == 0) {
                        volatile __global uint *parts_done = done + s * (s + 1) / 2 + s;
                        ${waiting.wait(f"(ready_end = 16 * (int){capture(waiting.flag, 'parts_done')}) "
                            "< min(from + 16, left_s)")}\
                        ${waiting.acquire()}
                    }
                    ${waiting.acquire_by_all()}\
                    ready = ready_end;
                }
% endif
                if (!is_fetched) {
                    ${panel.fetch_p("s0 + from", "left_s - from")}
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                ${panel.put("p", "p_part", p_along, "VALUE_OF_P")}
                barrier(CLK_LOCAL_MEM_FENCE);
                is_fetched = from + 16 < left_s && ready >= min(from + 32, left_s);
                if (is_fetched) {
                    ${panel.fetch_p("s0 + from + 16", "left_s - from - 16")}
                }
% if paired and not mma:
                if (t == 0 && is_fetched) atomic_min(&first_remaining, from);
% endif
                if (t < 16) {
                    __local value_t *d = p_part + t * 68 + from + t;
% if unit:
                    *d = AS_VALUE(1);
% else:
                    const bool inside = from + t < left_s;
                    *d = inside ? reciprocal(*d) : AS_VALUE(1);
% endif
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int q = from / ${item_rows}; q < (from + 16) / ${item_rows}; ++q) {
                    __local value_t *shared_rows = solved + q * ${item_rows} % ${16 if paired else 2 * item_rows} * 68;
                    __local const value_t *d = p_part + (${item_rows} * q - from) * 68;
                    if (y == q) {
                        ${substitute(lambda i, k: f"d[{k} * 68 + {item_rows} * q + {i}]")}
                        ${share_rows()}
                    }
                    barrier(CLK_LOCAL_MEM_FENCE);
                    if (y > q) {
                        ${panel.subtract("v", "d", "shared_rows", item_rows)}
                    }
% if paired:
                    if (y == q) {
                        ${memory.store_item_rows(False)}
                    }
% endif
                }
% if paired:
                if (has_diagonal${"" if mma else " && first_remaining == 64"}) {
                    ${pair.subtract_rows()}
                }
% endif
            }
        }
</%def>
