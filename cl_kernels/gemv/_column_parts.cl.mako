## The end of axpy_columns where several groups share the summed axis: the last group of a block to arrive adds the
## parts of the block's outputs.
##
## Layout of a block's results and of `partial`: see _column_sums.  elem, real, P, E, G, W, V, Q, finish: as in
## axpy_columns.  In scope, from there: lid, block, parts, counters, m, y and its strides, vectors, alpha, beta,
## reads_y, first_output, element_sums; and words, the pointer to `partial` that add_block declares.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="sums" file="/gemv/_column_sums.cl.mako"/>
<%!
LOADS = 8  # parts that a work-item loads at the same time
%>

## In the last group, `adders` work-items share a result: the i-th of them adds the parts i, i + adders ..., and the
## first of them adds these sums, always in the same order.
<%def name="add_parts()">\
<%
results = W * V * Q
adders = max(1, G // results)
is_shared = adders > 1
%>\
    __local uint is_last;
${fix_up.arrive("counters + block", "parts", "lid == 0")}\
    if (is_last) {
        // The distance, in words, of a part from the next one that the same work-item adds.
        const long pitch = ${adders * Q * P * fix_up.module.words(real)} * m;
% for r in range(max(1, results // G)):
        {
${sums.result(f"lid % {results}u" if is_shared else f"lid + {r * G}u")}\
        ${E} total = 0;
        uint p = ${f"lid / {results}u" if is_shared else "0"};
        volatile __global uint *from = ${sums.place("p", 0)};
        for (; exists && p + ${(LOADS - 1) * adders}u < parts; p += ${LOADS * adders}u, from += ${LOADS} * pitch) {
% for u in range(LOADS):
            const ${E} part${u} = ${collected(f"from + {u} * pitch")};
% endfor
% for u in range(LOADS):
            total += part${u};
% endfor
        }
        for (; exists && p < parts; p += ${adders}u, from += pitch) total += ${collected("from")};
% if is_shared:
        element_sums[lid] = total;
        barrier(CLK_LOCAL_MEM_FENCE);
${sums.add_rows(adders, results)}\
        if (exists && lid < ${results}u) ${sums.store("column_0")}
% else:
        if (exists) ${sums.store("total")}
% endif
        }
% endfor
    }
</%def>

## Load the sum whose reals begin at an address.
<%def name="collected(address)"><%
reals = [capture(fix_up.collect, real, f"{address} + {p * fix_up.module.words(real)}") for p in range(P)]
%>${gemv.module.build(real, reals)}</%def>
