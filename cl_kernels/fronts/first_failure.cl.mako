## Find the first failed column of all fronts.  Report its number in the permuted matrix, or -1, and the bits of its
## pivot.  failures: for each front, the number of its first failed column, or -1, and the bits of the pivot.
##
## size   work-items of the only group; if it is 1, neither local memory nor a barrier is needed
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>

__kernel ${group.of_size(size)}
void ${kernel("first_failure")}
{
% if size > 1:
    __local long firsts[${size}];
% endif
    const int t = get_local_id(0);
    long least = count;
    failures += failures_offset;
    for (long s = count - 1 - t; s >= 0; s -= ${size})
        if (failures[2 * s] >= 0) least = s;
% if size > 1:
    firsts[t] = least;
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    if (t == 0) {
% if size > 1:
        for (int k = 1; k < ${size}; k++)
            if (firsts[k] < least) least = firsts[k];
% endif
        const long s = least < count ? least : 0;
${front_.front("s", only=("first",))}
        report[report_offset] = least < count ? first + failures[2 * s] : -1;
        report[report_offset + 1] = least < count ? failures[2 * s + 1] : 0;
    }
}
