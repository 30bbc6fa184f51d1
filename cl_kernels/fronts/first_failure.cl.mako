## Find the first failed column of all fronts: report its number in the permuted matrix, or -1, and the
## pivot's bits.
##
## size   work-items of the only group; one of them needs neither local memory nor a barrier
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>

__kernel ${group.of_size(size)}
void ${kernel("first_failure")}
{
% if size > 1:
    __local long found[${size}];
% endif
    const int t = get_local_id(0);
    long least = count;
    told += told_offset;
    for (long s = count - 1 - t; s >= 0; s -= ${size})
        if (told[2 * s] >= 0) least = s;
% if size > 1:
    found[t] = least;
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    if (t == 0) {
% if size > 1:
        for (int k = 1; k < ${size}; k++)
            if (found[k] < least) least = found[k];
% endif
        const long s = least < count ? least : 0;
${front_.front("s", only=("first",))}
        report[report_offset] = least < count ? first + told[2 * s] : -1;
        report[report_offset + 1] = least < count ? told[2 * s + 1] : 0;
    }
}
