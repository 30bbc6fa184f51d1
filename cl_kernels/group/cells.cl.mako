## Elements that one work-group passes to others, each with its own flag (see waiting).
##
##   counters | next ticket | groups that are done | cell 0 | cell 1 | ...      two words of 32 bits, then cells of 64
##
## A cell has 64 bits: 32 bits of the element, and a flag in the other 32.  An element of several words has as many
## cells.  One access reads both, so neither the writer nor the reader needs a fence.  For groups of 256 work-items; `t`
## is the number of the work-item.
##
##   define(e)       the C functions, for Element e:
##                   publish(cell, v): store the element v in its cells, the first of which is at `cell`
##                   is_published(cell, &v): whether the element was published; if so, v is set
##   cell(offset)    an expression: the pointer to cell `offset`
##   finish(last, groups, cells)    count the group as done, and let the last group reset all `cells` cells
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%def name="define(e)">
<% words = e.itemsize // 4 %>\
static inline void publish(volatile __global ulong *cell, value_t v)
{
    const uint${words if words > 1 else ""} bits = as_uint${words if words > 1 else ""}(v);
% for w in range(words):
    STORE_PUBLISHED_LONG(cell + ${w}, 1ul << 32 | bits${f".s{w}" if words > 1 else ""});
% endfor
}
static inline bool is_published(volatile __global ulong *cell, value_t *v)
{
    const ulong ${", ".join(f"w{w} = LOAD_PUBLISHED_LONG(cell + {w})" for w in range(words))};
    *v = as_${e.value}((uint${words if words > 1 else ""})(${", ".join(f"(uint)w{w}" for w in range(words))}));
    return (${" & ".join(f"w{w}" for w in range(words))}) >> 32;
}
</%def>

<%def name="cell(offset)">(volatile __global ulong *)counters + 1 + ${offset}</%def>

## For all work-items of one group: set the first two counters and all cells to 0.
<%def name="reset(cells)">\
for (long i = t; i < ${cells}; i += 256) STORE_PUBLISHED_LONG(${cell("i")}, 0ul);
        if (t < 2) STORE_PUBLISHED(counters + t, 0u);
</%def>

## For all work-items: count the group as done.  The last of `groups` groups resets the cells.  last: a __local
## variable.
<%def name="finish(last, groups, cells)">\
${waiting.release()}\
    if (t == 0) {
        ${waiting.done(last, groups)}\
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (${last}) {
        ${reset(cells)}\
    }
</%def>
