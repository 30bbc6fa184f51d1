## The end of axpy_columns: the sums of an output's K work-items are added in local memory, in the first of them.  If
## groups share the summed axis, each stores its sums in `partial`, and the last group to arrive adds them.
##
##   partial, in words of 32 bits   part 0: vector 0: the components of all outputs | vector 1 | ... || part 1 ...
##
## elem, real, P, C, T, G, W, Q, V, conj: as in axpy_columns.  In scope, from there: k, o, s<q> and t<q>, sums, lid,
## part, parts, block, m.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>

<%def name="define()">
// Add the sums v of the work-items of one output, which are W apart; the first of them has the result.
static inline ${T} fold_down(${T} v, __local ${T} *sums)
{
    const uint lid = get_local_id(0);
% if Q > 1:
    barrier(CLK_LOCAL_MEM_FENCE);  // others may still read the previous sums
% endif
    sums[lid] = v;
% for d in [G >> s for s in range(1, (G // W).bit_length())]:
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < ${d}u) sums[lid] += sums[lid + ${d}u];
% endfor
    return sums[lid];
}
</%def>

## Add the sums s<q> (and t<q>: see _gemv) of an output's work-items, one for each vector; the first work-item has the
## results.
<%def name="across_rows()">\
% for q in range(Q):
% if elem.complex:
    s${q} = ${(f"{gemv.module.signs(real, C)} * s{q} + {gemv.module.swapped(f't{q}', C)}"
        if conj
        else f"s{q} - {gemv.module.signs(real, C)} * {gemv.module.swapped(f't{q}', C)}")};
% endif
    s${q} = fold_down(s${q}, sums);
% endfor
</%def>

## The address of component c of the sums of this work-item's outputs, for a part and a vector.
<%def name="place(part, c)">words + (((${part}) * m + o) * ${P} + ${c}) * ${fix_up.module.words(real)}</%def>

## The last group of a block to finish adds the parts of each output in order.  It declares `holds`, whether this
## work-item has results: work-item k of an output adds every K-th part, from part k on.
<%def name="across_groups()">\
    __local uint is_last;
    volatile __global uint *words = (volatile __global uint *)partial;
    if (k == 0 && o < m) {
% for q in range(Q):
% for c in range(C):
        ${fix_up.publish(real, capture(place, f"part * {Q}L + {q}", c), gemv.module.lane(f"s{q}", c, C))}
% endfor
% endfor
    }
${fix_up.arrive("counters + block", "parts", "lid == 0")}\
    const bool holds = k == 0 && o < m && is_last;
    if (is_last) {
% for q in range(Q):
        s${q} = 0;
% endfor
        const long pitch = m * ${P * fix_up.module.words(real)};  // of a vector's sums in a part
        volatile __global uint *from = ${place(f"(long)k * {Q}", 0)};
        for (uint p = k; p < parts && o < m; p += ${G // W}, from += ${G // W * Q} * pitch) {
% for q in range(Q):
% for c in range(C):
            ${gemv.module.lane(f"s{q}", c, C)} +=
                ${fix_up.collect(real, f"from + {q} * pitch + {c * fix_up.module.words(real)}")};
% endfor
% endfor
        }
% for q in range(Q):
        s${q} = fold_down(s${q}, sums);
% endfor
    }
</%def>
