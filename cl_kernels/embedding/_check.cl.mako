## Report the first index that is not the number of a row.  The last work-group checks all indices.
##
## idx: the element type of indices.  G: work-items of a group.
<%def name="report_first()">
% if G > 1:
    __local long first[${G}];
% endif
    if (get_group_id(0) == get_num_groups(0) - 1) {
        const long lane = ${"get_local_id(0)" if G > 1 else "0"};
        long mine = count;
        for (long i = lane; i < count && mine == count; i += ${G}) {
            const long row = (long)${idx.name}_load(indices + i);
            if (row < 0 || row >= rows) mine = i;
        }
% if G > 1:
        first[lane] = mine;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0)
            for (uint k = 1; k < ${G}; k++) mine = min(mine, first[k]);
% endif
        if (lane == 0) {
            report_in[report_in_offset] = mine < count ? mine : -1;
            report_in[report_in_offset + 1] = mine < count ? (long)${idx.name}_load(indices + mine) : 0;
        }
        return;
    }
</%def>
