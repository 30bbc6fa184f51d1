## V = D^-1 V: see tiles and _tile.
<%namespace name="products" file="/factor/_tile_products.cl.mako"/>

## The rows of a work-item: X = D^-1 X; d(i, k): D's elements, with reciprocals on the diagonal.
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

## Show the rows that a work-item has to all others; subtract their products from the rows below.
<%def name="show()">\
% for i in range(depth):
% for j in range(16 // depth):
                shown[${i * 68 + 4 * depth * j} + x] = v${i}_${j};
% endfor
% endfor
</%def>
<%def name="subtract(d, given='')">\
#pragma unroll
                for (int k = 0; k < ${depth}; ++k) {
                    ${products.rows("d", f"{d} + k * 68")}
                    ${products.columns("b", "shown + k * 68")}
% for i in range(depth):
% for j in range(16 // depth):
                    SUBTRACT(v${i}_${j}, ${given}(d${i}), b${j});
% endfor
% endfor
                }
</%def>

## V = D^-1 V: R rows at a time, of sixteen columns of D at a time.
<%def name="solved()">\
{
            value_t p0, p1, p2, p3;
            bool is_fetched = false;
            int have = ${"0" if factorise else "4"};  // parts of D that are done
            for (int from = 0; from < left_s; from += 16) {
% if factorise:
                if (from / 16 >= have) {
                    if (t == 0) {
                        volatile __global uint *parts = done + s * (s + 1) / 2 + s;
                        while ((until = (int)LOAD_PUBLISHED(parts)) <= from / 16) {}
                        DEVICE_FENCE();
                    }
                    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
                    have = until;
                    GROUP_FENCE();
                }
% endif
                if (!is_fetched) {
                    ${products.fetch_p("s0 + from", "left_s - from")}
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                ${products.put("p", "p_part", p_along, "GIVEN")}
                barrier(CLK_LOCAL_MEM_FENCE);
                is_fetched = from + 16 < left_s && from / 16 + 1 < have;
                if (is_fetched) {
                    ${products.fetch_p("s0 + from + 16", "left_s - from - 16")}
                }
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
                    __local value_t *shown = solved + (q & 1) * ${68 * depth};
                    __local const value_t *d = p_part + (${depth} * q - from) * 68;
                    if (y == q) {
                        ${substitute(lambda i, k: f"d[{k} * 68 + {depth} * q + {i}]")}
                        ${show()}
                    }
                    barrier(CLK_LOCAL_MEM_FENCE);
                    if (y > q) {
                        ${subtract("d")}
                    }
                }
            }
        }
</%def>
