## How groups hand elements of X on: see _vector.
##
##   ready | next number | groups that are done | cells ...
##
## An element has cells of 64 bits: 32 of its own, and 32 that say that they are there.  So whoever waits for
## it reads it with one access, and needs no fence.

## publish(cell, v), and is_taken(cell, &v): whether it was there.
<%def name="define(e)">
<% words = e.itemsize // 4 %>\
static inline void publish(volatile __global ulong *cell, value_t v)
{
    const uint${words if words > 1 else ""} bits = as_uint${words if words > 1 else ""}(v);
% for w in range(words):
    STORE_PUBLISHED_LONG(cell + ${w}, 1ul << 32 | bits${f".s{w}" if words > 1 else ""});
% endfor
}
static inline bool is_taken(volatile __global ulong *cell, value_t *v)
{
    const ulong ${", ".join(f"w{w} = LOAD_PUBLISHED_LONG(cell + {w})" for w in range(words))};
    *v = as_${e.value}((uint${words if words > 1 else ""})(${", ".join(f"(uint)w{w}" for w in range(words))}));
    return (${" & ".join(f"w{w}" for w in range(words))}) >> 32;
}
</%def>

## The group is done.  The last of all, of `groups`, leaves `ready` at 0, with its `cells` cells.
<%def name="tell()">\
GROUP_FENCE();
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (t == 0) {
        DEVICE_FENCE();
        number = atomic_inc(ready + 1) == groups - 1u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (number) {
        for (long i = t; i < cells; i += 256) STORE_PUBLISHED_LONG((volatile __global ulong *)ready + 1 + i, 0ul);
        if (t < 2) STORE_PUBLISHED(ready + t, 0u);
    }
</%def>
