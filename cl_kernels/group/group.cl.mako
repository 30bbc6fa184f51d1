## The size of a work-group, and the fold of an accumulator over a whole group (over several groups: see fix_up).
<%namespace name="subgroup" file="/subgroup/subgroup.cl.mako"/>

## The attribute of a kernel whose groups have G work-items.  On some targets (unbound_group) the compiler gets G only
## if the kernel needs few registers, because it may else spill registers to make one more group resident.
<%def name="of_size(G, few_registers=False)">\
${(f"UNBOUND_GROUP({G})" if G <= target.unbound_group and not few_registers
    else f"__attribute__((reqd_work_group_size({G}, 1, 1)))")}\
</%def>

## Define ACC_subgroup<width>: see subgroup/subgroup.
<%def name="define_subgroup(acc, width)">${subgroup.define(acc, width)}</%def>

## ACC_group(v, slot, wave): fold v over the group of G work-items; work-item 0 holds the result.
##   | S lanes | S lanes | ... |      each sub-group folds by itself
##   wave[0]   wave[1]  ...           its first lane writes one slot of local memory
##   the first sub-group folds wave[0 .. G/S)
## slot: see subgroup/subgroup.  wave: local memory of G / S accumulators, which does not overlap the slots; that saves
## a barrier.  Call it from all work-items, with LOCAL_ARRAY(wave); a barrier is needed between two calls.
<%def name="define(acc, G, S)">
${subgroup.define(acc, S)}
<% waves = G // S %>
static inline ${acc.name} ${acc.name}_group(${acc.name} v, __local ${acc.name} *slot, __local ${acc.name} *wave)
{
    v = ${acc.name}_subgroup${S}(v, slot);
% if waves > 1:
    const uint lid = get_local_id(0);
    if (lid % ${S}u == 0) wave[lid / ${S}u] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    v = ${acc.name}_identity();
    if (lid < ${S}u)
        for (uint w = lid; w < ${waves}u; w += ${S}u) v = ${acc.name}_combine(v, wave[w]);
    v = ${acc.name}_subgroup${S}(v, slot);
% endif
    return v;
}
</%def>
