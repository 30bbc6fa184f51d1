## CPU: a work-item is its own sub-group; there is nothing to exchange.
<%def name="define(acc, width, runs)">
static inline ${acc.name} ${acc.name}_subgroup${width}(
    ${acc.name} v, __local ${acc.name} *slot${", uint lanes" if runs else ""})
{
    return v;
}
</%def>
