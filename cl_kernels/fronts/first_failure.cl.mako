## Find the first failed column of all fronts: report its number in the permuted matrix, or -1, and the
## pivot's bits.
##
## size   work-items of the only group
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>

__kernel ${group.of_size(size)}
void first_failure(__global const long *fronts, __global const long *told, __global long *report, long count, long told_offset, long report_offset)
{
    __local long found[${size}];
    const int t = get_local_id(0);
    long least = count;
    told += told_offset;
    for (long s = count - 1 - t; s >= 0; s -= ${size})
        if (told[2 * s] >= 0) least = s;
    found[t] = least;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t == 0) {
        for (int k = 1; k < ${size}; k++)
            if (found[k] < least) least = found[k];
        const long s = least < count ? least : 0;
${front_.front("s", only=("first",))}
        report[report_offset] = least < count ? first + told[2 * s] : -1;
        report[report_offset + 1] = least < count ? told[2 * s + 1] : 0;
    }
}
