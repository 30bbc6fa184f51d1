## CPU: a work-item is its own sub-group; there is nothing to exchange.
<%def name="define(acc, width)">
static inline ${acc.name} ${acc.name}_subgroup${width}(${acc.name} v, __local ${acc.name} *slot)
{
    return v;
}
</%def>
