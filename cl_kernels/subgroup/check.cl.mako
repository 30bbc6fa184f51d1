## check: fold a 32-bit and a 64-bit value of each lane at every width, by the target's own exchange.
##
##   out[k][j] = the sums over in[j * W .. (j + 1) * W), W = widths[k], as pairs: modulo 2^32, and modulo 2^64
##
## acc: Accumulator of the sums `narrow` (uint) and `wide` (ulong).  G: work-items of the one group.
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="subgroup" file="/subgroup/subgroup.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${accumulator.define(acc)}
% for width in widths:
${subgroup.define(acc, width)}
% endfor

__kernel SUBGROUP_KERNEL __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("check")}
{
    SUBGROUP_SCRATCH(acc_t, scratch, ${G});
    const uint lid = get_local_id(0);
% for k, width in enumerate(widths):
    {
        acc_t v = {(uint)in[lid], in[lid]};
        v = acc_t_subgroup${width}(v, SUBGROUP_SLOT(scratch));
        if (lid % ${width}u == 0) out[${k * G} + lid / ${width}u] = (ulong2)(v.narrow, v.wide);
    }
% endfor
}
