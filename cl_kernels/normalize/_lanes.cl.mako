## A part of rows: the accumulators of the L lanes of a row are combined, and each of these lanes gets the total.  A
## group has G / L rows.  S: work-items of a sub-group.
##
##   along    sub-groups fold by their exchange; each first lane writes a slot; all lanes of a row combine its slots
##   across   a tree in local memory
##
## Each phase has another part of local memory, shared<K>, so that one barrier, before the part is read, suffices.
## Along, it has L / wave slots for each row, one after the other; across, a value of each work-item.  wave: lanes of a
## row that a sub-group folds.
<%namespace name="subgroup" file="/subgroup/subgroup.cl.mako"/>
## Functions accK_t_of_row(v, slot, shared) for each phase K: v: this work-item's accumulator; slot: see subgroup.
<%def name="define()">
<% wave = 1 if across else min(L, S) %>
% for phase in phases if launch != "map" else []:
<% acc, group_rows = f"acc{loop.index}_t", G // L %>
% if wave > 1:
${subgroup.define(phase.accumulator(acc, real), wave)}
% endif
static inline ${acc} ${acc}_of_row(${acc} v, __local ${acc} *slot, __local ${acc} *shared)
{
    const uint lid = get_local_id(0);
% if across:
    shared[lid] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint remaining = ${G // 2}u; remaining >= ${group_rows}u; remaining /= 2) {
        if (lid < remaining) shared[lid] = ${acc}_combine(shared[lid], shared[lid + remaining]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return shared[lid % ${group_rows}u];
% else:
% if wave > 1:
    v = ${acc}_subgroup${wave}(v, slot);
% endif
    if (lid % ${wave}u == 0) shared[lid / ${wave}u] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    __local ${acc} *of_row = shared + lid / ${L}u * ${L // wave}u;
    v = of_row[0];
% if L > wave:
    for (uint w = 1; w < ${L // wave}u; ++w) v = ${acc}_combine(v, of_row[w]);
% endif
    return v;
% endif
}
% endfor
</%def>

## The declarations of local memory, in the kernel.
<%def name="local()">\
<% wave = 1 if across else min(L, S) %>\
% for phase in phases if launch != "map" else []:
    __local acc${loop.index}_t shared${loop.index}[${G if across else G // wave}];
% if wave > 1:
    SUBGROUP_SCRATCH(acc${loop.index}_t, scratch${loop.index}, ${G});
% endif
% endfor
</%def>

## An expression: the total of `value`, the accumulators of phase k, over the lanes of a row.
<%def name="fold(value, k)">\
<% slot = "0" if across or L == 1 else f"SUBGROUP_SLOT(scratch{k})" %>\
acc${k}_t_of_row(${value}, ${slot}, LOCAL_ARRAY(shared${k}))\
</%def>
