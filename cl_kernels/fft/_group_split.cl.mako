## Real lines of even length 2 n as complex ones of length n, in fft/group: number j is x[2 j] + i x[2 j + 1].
##
## With the transform Z of the n numbers, result k of the real line is E + w O and result n - k is conj(E - w O), where
## E = (Z[k] + conj Z[n - k]) / 2, O = (Z[k] - conj Z[n - k]) / 2i, w = exp(-pi i k / n).
##
##   read(plan, source)                   load the numbers of the first stage; all exist; a line may be unaligned
##   define(result, all, tag)             split(...): stores results k and n - k
##   write(plan, result, fixed, tag)      store all results, with w from the kernel's table `halves`.  A work-item has
##                                        the butterflies j and M - j of the last stage, so that it has both numbers
##                                        of a pair: Z[j + r M] and Z[n - j - r M].  Work-item 0 has the butterflies 0
##                                        and M / 2, because both numbers of their pairs are in one butterfly.
## M, R: butterflies (count) and radix of the stage.  re, im: number r of the work-item's butterfly b at b R + r.
## product, with_sign, remaining: see _group_numbers.  In scope (_group_pass): lane0, the group's first lane;
## lanes_here, its lanes; y_at: the line's result 0.
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%def name="read(plan, source)">
<%
first = plan.stages[0]
places = [(b, r, 2 * (b * plan.items + r * first.count)) for b in range(first.butterflies) for r in range(first.radix)]
%>\
    __global const real_t *x_at = ${rows.place("x", source, first.item, f"min(lane0 + {first.slot}, lanes - 1)")};
% for whole in (True, False):
    ${"if ((ulong)x_at % (2 * sizeof(real_t)) == 0) {" if whole else "} else {"}
% for b, r, place in places:
<% k = b * first.radix + r %>\
% if whole:
        ${local.guard(plan, first, b)}{
            const pair_t v = *(__global const pair_in_memory_t *)(x_at + ${place});
            re[${k}] = v.x, im[${k}] = v.y;
        }
% else:
        ${local.guard(plan, first, b)}re[${k}] = x_at[${place}], im[${k}] = x_at[${place + 1}];
% endif
% endfor
% endfor
    }
</%def>

<%def name="define(result, all, tag)">
<% fixed = capture(rows.arguments, result, all) + (", first, begin" if not all else "") %>
static inline void split${tag}(__global real_t *y, long row_step, uint k, uint n, long lane, bool live, real_t sign,
    real_t scale${rows.parameters(result, all)}${", long first, long begin" if not all else ""}, pair_t a, pair_t b,
    pair_t w)
{
    scale /= 2;
    const pair_t even = (pair_t)(a.x + b.x, a.y - b.y) * scale;
    const pair_t odd = product((pair_t)(a.y + b.y, b.x - a.x) * scale, w);
    if (live) {
        put_element${tag}(y + 2 * (long)k * row_step, k, lane, with_sign(even + odd, sign)${fixed});
        if (2 * k != n)
            put_element${tag}(y + 2 * (long)(n - k) * row_step, n - k, lane,
                with_sign((pair_t)(even.x - odd.x, odd.y - even.y), sign)${fixed});
    }
}
</%def>

<%def name="write(plan, result, fixed, tag)">
<%
last, n = plan.stages[-1], plan.n
R, M, lane = last.radix, last.count, f"lane0 + {last.slot}"
step = capture(rows.step, "y", result, "row")

def number(b, r):
    """C expression of result r of butterfly b."""
    return f"(pair_t)(re[{b * R + r}], im[{b * R + r}])"

def pair(k, a, b):
    """The statement that stores results k and n - k, from numbers k and n - k of Z."""
    live = f"remaining({last.slot}, lanes_here) > 0"
    return f"split{tag}(y_at, {step}, {k}, {n}, {lane}, {live}, sign, scale{fixed}, {a}, {b}, halves[{k}]);"
%>\
    __global real_t *y_at = ${rows.place("y", result, 0, lane)};
% if M == 1:
% for k in range(n // 2 + 1):
    ${pair(k, number(0, k), number(0, -k % n))}
% endfor
% else:
% for c in range(last.butterflies // 2):
% for r in range(R):
<%
first, second = number(2 * c, r), number(2 * c + 1, R - 1 - r)
k = f"{last.item} + {c * plan.items + r * M}"
%>\
% if c == 0:
<%
# What work-item 0 stores in place of this: pairs of butterfly 0 first, and then pairs of butterfly M / 2.
if r < R // 2:
    k0, a0, b0 = r * M, number(0, r), number(0, -r % R)
else:
    row = r - R // 2
    k0, a0, b0 = row * M + M // 2, number(1, row), number(1, R - 1 - row)
%>\
    {
        const bool is_item_0 = ${last.item} == 0;
        const uint k = is_item_0 ? ${k0} : ${k};
        ${pair("k", f"is_item_0 ? {a0} : {first}", f"is_item_0 ? {b0} : {second}")}
    }
% else:
    {
        const uint k = ${k};
        ${pair("k", first, second)}
    }
% endif
% endfor
% endfor
    if (${last.item} == 0)
        ${pair(n // 2, number(0, R // 2), number(0, R // 2))}
% endif
</%def>
