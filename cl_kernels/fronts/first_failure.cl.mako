## Find the first column of the permuted matrix whose pivot is not positive, in one launch of one work-group.
##
## failures   for each front, the first of its own columns that failed, or -1, and the bits of the pivot
## report     the number of the column in the permuted matrix, or -1, and the bits of its pivot
## count      the number of fronts, which are in the order of their columns
## size       work-items of the group; if it is 1 (CPUs), neither local memory nor a barrier is needed
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>

__kernel ${group.of_size(size)}
void ${kernel("first_failure")}
{
% if size > 1:
    __local long first_fronts[${size}];
% endif
    const int t = get_local_id(0);
    long first_front = count;
    failures += failures_offset;
    for (long s = count - 1 - t; s >= 0; s -= ${size})
        if (failures[2 * s] >= 0) first_front = s;
% if size > 1:
    first_fronts[t] = first_front;
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    if (t == 0) {
% if size > 1:
        for (int k = 1; k < ${size}; k++)
            if (first_fronts[k] < first_front) first_front = first_fronts[k];
% endif
        const long s = first_front < count ? first_front : 0;
${front_.front("s", only=("first",))}
        report[report_offset] = first_front < count ? first + failures[2 * s] : -1;
        report[report_offset + 1] = first_front < count ? failures[2 * s + 1] : 0;
    }
}
