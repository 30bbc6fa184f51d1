## targets: for each work-group, find the first of its targets that is neither a class nor ignored; -1 if there is none.
##
##   target | group 0: span | group 1: span | ...     report[2 g] is the number, report[2 g + 1] the target
##
## span: targets of a group.  ignore: the value of targets that are ignored.  elem: Element of the targets.  kept: the
## number of their axes.  G: work-items of a group, of which the first has the result.
<%namespace name="element" file="/common/element.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(elem)}

__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("normalize_targets")}
{
    const long begin = get_group_id(0) * span, end = min(count, begin + span);
    long first = count;
    for (long row = begin + get_local_id(0); row < end && first == count; row += ${G}) {
        const long value = ${elem.name}_load(target + target_offset
            + ${axes.offset("kept", "target", axes.digits("kept", kept, "row"))});
        if ((value < 0 || value >= classes) && value != ignore) first = row;
    }
% if G > 1:
    __local long firsts[${G}];
    firsts[get_local_id(0)] = first;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = ${G // 2}; half_ > 0; half_ /= 2) {
        if (get_local_id(0) < half_)
            firsts[get_local_id(0)] = min(firsts[get_local_id(0)], firsts[get_local_id(0) + half_]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    first = firsts[0];
% endif
    if (get_local_id(0) == 0) {
        const long row = min(first, count - 1);
        report += report_offset + 2 * get_group_id(0);
        report[0] = first < count ? first : -1;
        report[1] = count ? (long)${elem.name}_load(target + target_offset
            + ${axes.offset("kept", "target", axes.digits("kept", kept, "row"))}) : 0;
    }
}
