## copy: result[i] = source[i] for i < count.  Its rate is the benchmark's limit by memory bandwidth (roofline).
##
##   CPU    | group 0 | group 1 | ...      a group copies one range, a vector at a time
##   GPU    | 0 1 2 ... | 0 1 2 ... |      neighbouring work-items copy neighbouring vectors
##
## type (of the arguments): a vector of floats.  count: vectors.  Any number of groups of any size.
<%include file="/common/prelude.cl.mako"/>
% if target.is_cpu:
<%
first, last = (f"count * ({group}) / get_num_groups(0)" for group in ("get_group_id(0)", "get_group_id(0) + 1"))
step = "1"
%>
% else:
<% first, last, step = "get_global_id(0)", "count", "get_global_size(0)" %>
% endif
__kernel void ${kernel("copy")}
{
    const ulong last = ${last};
    for (ulong i = ${first}; i < last; i += ${step})
        result[i] = source[i];
}
