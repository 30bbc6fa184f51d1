## A part of gather and lists: report the first index that is not the number of a row (0 to rows - 1).  Group 0 checks
## all `count` indices, and returns, while the other groups do the kernel's work.  report[0]: the position of that
## index, or -1; report[1]: the index.
##
## idx: the element type of indices.  G: work-items of a group.
<%def name="report_first()">
% if G > 1:
    __local long first[${G}];
% endif
    if (get_group_id(0) == 0) {
        const long lane = ${"get_local_id(0)" if G > 1 else "0"};
        long mine = count;
% if G > 1:
        #pragma unroll 8
% endif
        for (long i = lane; i < count; i += ${G}) {
            const long row = (long)${idx.name}_load(indices + i);
            mine = row >= 0 && row < rows ? mine : min(mine, i);
        }
% if G > 1:
        first[lane] = mine;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0)
            for (uint k = 1; k < ${G}; k++) mine = min(mine, first[k]);
% endif
        if (lane == 0) {
            report_data[report_data_offset] = mine < count ? mine : -1;
            report_data[report_data_offset + 1] = mine < count ? (long)${idx.name}_load(indices + mine) : 0;
        }
        return;
    }
</%def>
