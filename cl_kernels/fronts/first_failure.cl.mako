## Find the first column of the permuted matrix whose pivot is not positive, in one launch of one work-group.
##
## failures   of each front: the number of the first of its own columns whose pivot is not positive, or -1, and the bits
##            of this pivot
## report     the number of the column in the permuted matrix, or -1, and the bits of its pivot
## count      the number of fronts, which are in the order of their columns
## size       work-items of the group; if it is 1 (CPUs), neither local memory nor a barrier is needed
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="tables" file="/fronts/_front.cl.mako"/>
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
    for (long front = count - 1 - t; front >= 0; front -= ${size})
        if (failures[2 * front] >= 0) first_front = front;
% if size > 1:
    first_fronts[t] = first_front;
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    if (t == 0) {
% if size > 1:
        for (int k = 1; k < ${size}; k++)
            if (first_fronts[k] < first_front) first_front = first_fronts[k];
% endif
        const long front = first_front < count ? first_front : 0;
${tables.front("front", only=("first",))}
        // `first`: the front's first column
        report[report_offset] = first_front < count ? first + failures[2 * front] : -1;
        report[report_offset + 1] = first_front < count ? failures[2 * front + 1] : 0;
    }
}
