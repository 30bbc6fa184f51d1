## Adds the parts at the end of axpy_columns, if several groups share the summed axis.
##
## Parameters of the template, names in scope, results and `partial`: as in _column_sums; also counters, block and
## parts, and words, which of_block declares.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="sums" file="/gemv/_column_sums.cl.mako"/>
<%!
LOADS = 8  # parts that a work-item loads at the same time
%>

## The last group of a block to arrive adds the parts of each result.  Each of `turns` work-items adds every `turns`-th
## part, and then the first of them adds their sums, always in the same order.
<%def name="of_parts()">\
<% results = W * V * Q; turns = max(1, G // results) %>\
    __local uint is_last;
${fix_up.arrive("counters + block", "parts", "lid == 0")}\
    if (is_last) {
        // Words between successive parts of one work-item.
        const long pitch = ${turns * Q * P * fix_up.module.words(real)} * m;
% for r in range(max(1, results // G)):
        {
${sums.result(f"lid % {results}u" if turns > 1 else f"lid + {r * G}u")}\
        ${E} total = 0;
        uint p = ${f"lid / {results}u" if turns > 1 else "0"};
        volatile __global uint *from = ${sums.place("p", 0)};
        for (; exists && p + ${(LOADS - 1) * turns}u < parts; p += ${LOADS * turns}u, from += ${LOADS} * pitch) {
% for u in range(LOADS):
            const ${E} part${u} = ${collected(f"from + {u} * pitch")};
% endfor
% for u in range(LOADS):
            total += part${u};
% endfor
        }
        for (; exists && p < parts; p += ${turns}u, from += pitch) total += ${collected("from")};
% if turns > 1:
        all[lid] = total;
        barrier(CLK_LOCAL_MEM_FENCE);
${sums.add_rows(turns, results)}\
% endif
        if (exists${f" && lid < {results}u" if turns > 1 else ""}) ${sums.store("column_0" if turns > 1 else "total")}
        }
% endfor
    }
</%def>

## Load the sum whose reals begin at an address.
<%def name="collected(address)"><%
reals = [capture(fix_up.collect, real, f"{address} + {p * fix_up.module.words(real)}") for p in range(P)]
%>${gemv.module.build(real, reals)}</%def>
