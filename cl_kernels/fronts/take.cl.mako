## Gather to[k] = from[index[k]] for k < count, converted to the Element of `to`.  A negative index[k] means the
## conjugate of from[~index[k]].  If the index is `length` or more, the result is 0.
##
## source, to_      Elements of `from` and `to`         size   work-items of a group, each for `run` adjacent k
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
% for e in dict.fromkeys((source, to_)):
${element.scalar(e)}
% endfor

__kernel ${group.of_size(size)}
void ${kernel("take")}
{
    const long begin = get_global_id(0) * run, end = begin + run < count ? begin + run : count;
    for (long at = begin; at < end; at++) {
        const long signed_index = index[at], place = signed_index < 0 ? ~signed_index : signed_index;
        ${source.value} v = (${source.value})(0);
        if (place < length) v = from[from_offset + place];
% if source.complex:
        if (signed_index < 0) v.y = -v.y;
        to[to_offset + at] = (${to_.value})((${to_.real})v.x, (${to_.real})v.y);
% elif to_.complex:
        to[to_offset + at] = (${to_.value})((${to_.real})v, 0);
% else:
        to[to_offset + at] = (${to_.value})v;
% endif
    }
}
