## V = D^-1 V: see tiles and _tile.
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="pair" file="/factor/_pair.cl.mako"/>
<%namespace name="panel" file="/factor/_panels.cl.mako"/>
<%namespace name="memory" file="/factor/_tile_store.cl.mako"/>

## Solve for the rows of a work-item: X = D^-1 X; d(i, k): D's elements, with reciprocals on the diagonal.
<%def name="substitute(d)">\
% for k in range(depth):
                {
                const value_t ${", ".join(f"d{i} = {d(i, k)}" for i in range(k, depth))};
% for j in range(16 // depth):
                v${k}_${j} = MUL(v${k}_${j}, d${k});
% for i in range(k + 1, depth):
                SUBTRACT(v${i}_${j}, d${i}, v${k}_${j});
% endfor
% endfor
                }
% endfor
</%def>

## Store the rows of a work-item in local memory, for all others.
<%def name="show()">\
% for i in range(depth):
% for j in range(16 // depth):
                shown[${i * 68 + 4 * depth * j} + x] = v${i}_${j};
% endfor
% endfor
</%def>

## V = D^-1 V: in steps of R rows, within steps of sixteen columns of D.
<%def name="solved()">\
{
            value_t p0, p1, p2, p3;
            bool is_fetched = false;
            int have = ${"0" if factorise else "64"};  // columns of D that are done
            for (int from = 0; from < left_s; from += 16) {
% if factorise:
                if (have < min(from + 16, left_s)) {
                    if (t == 0) {
                        volatile __global uint *parts = done + s * (s + 1) / 2 + s;
                        ${waiting.wait(f"(until = 16 * (int){capture(waiting.flag, 'parts')}) "
                            "< min(from + 16, left_s)")}\
                        ${waiting.acquire()}
                    }
                    ${waiting.acquire_by_all()}\
                    have = until;
                }
% endif
                if (!is_fetched) {
                    ${panel.fetch_p("s0 + from", "left_s - from")}
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                ${panel.put("p", "p_part", p_along, "GIVEN")}
                barrier(CLK_LOCAL_MEM_FENCE);
                is_fetched = from + 16 < left_s && have >= min(from + 32, left_s);
                if (is_fetched) {
                    ${panel.fetch_p("s0 + from + 16", "left_s - from - 16")}
                }
% if paired and not mma:
                if (t == 0 && is_fetched) atomic_min(&late_from, from);
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
                for (int q = from / ${depth}; q < (from + 16) / ${depth}; ++q) {
                    __local value_t *shown = solved + q * ${depth} % ${16 if paired else 2 * depth} * 68;
                    __local const value_t *d = p_part + (${depth} * q - from) * 68;
                    if (y == q) {
                        ${substitute(lambda i, k: f"d[{k} * 68 + {depth} * q + {i}]")}
                        ${show()}
                    }
                    barrier(CLK_LOCAL_MEM_FENCE);
                    if (y > q) {
                        ${panel.subtract("v", "d", "shown", depth)}
                    }
% if paired:
                    if (y == q) {
                        ${memory.store_own(False)}
                    }
% endif
                }
% if paired:
                if (leads${"" if mma else " && late_from == 64"}) {
                    ${pair.more()}
                }
% endif
            }
        }
</%def>
