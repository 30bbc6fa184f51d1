## The fix-up of outputs that several work-groups compute: each group stores its part in global memory, and the last
## group to arrive combines all parts in their order, so that the result does not depend on which group is last.
## No group waits for another one, so a device need not promise progress (see waiting).
##
##   partial    | part 0 | part 1 | ...    words of 32 bits, which every OpenCL device keeps coherent
##   counters   | output 0 | output 1 | ...    for each, the number of groups that have arrived; 0 between launches
##
##   define()               arrives_last(counter, groups), for the defs below
##   publish, collect       one real number
##   accumulators(acc)      ACC_publish(words, v), ACC_collect(words): all fields of an accumulator
##   arrive, arrive_by_one  is_last, a __local uint of the kernel: whether this group is the last
##   fold                   combine the accumulators of all parts
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%!
from portable_gpu.codegen.operators import SCALAR_BYTES

def words(real):
    """32-bit words of a real number."""
    return max(1, SCALAR_BYTES[real] // 4)
%>

<%def name="define()">
// Whether this group is the last of `groups` to arrive at the counter, which is then set to 0.  One work-item calls
// it, after the group has published its part.
static inline bool arrives_last(volatile __global uint *counter, uint groups)
{
    DEVICE_FENCE();
    const bool last = ${waiting.arrives_last("counter", "groups")};
    DEVICE_FENCE();
    if (last) atomic_xchg(counter, 0u);  // after the fence, which would wait for it; the next launch begins later
    return last;
}
</%def>

## publish: store the number `value` at `place`.  collect: the number there.  apart: the distance between its two words.
<%def name="publish(real, place, value, apart=1)">\
% if words(real) == 2:
{ const uint2 bits = as_uint2(${value}); STORE_PUBLISHED(${place}, bits.x);
    STORE_PUBLISHED(${place} + ${apart}, bits.y); }\
% elif real in ("float", "int", "uint"):
STORE_PUBLISHED(${place}, as_uint(${value}));\
% else:
STORE_PUBLISHED(${place}, (uint)${value});\
% endif
</%def>

<%def name="collect(real, place, apart=1)">\
% if words(real) == 2:
as_${real}((uint2)(LOAD_PUBLISHED(${place}), LOAD_PUBLISHED(${place} + ${apart})))\
% elif real in ("float", "int", "uint"):
as_${real}(LOAD_PUBLISHED(${place}))\
% else:
(${real})LOAD_PUBLISHED(${place})\
% endif
</%def>

<%def name="accumulators(acc)">
static inline void ${acc.name}_publish(volatile __global uint *words, ${acc.name} v)
{
% for offset, field in acc.words():
    ${publish(field.ctype, f"words + {offset}", f"v.{field.name}")}
% endfor
}
static inline ${acc.name} ${acc.name}_collect(volatile __global uint *words)
{
    ${acc.name} v;
% for offset, field in acc.words():
    v.${field.name} = ${collect(field.ctype, f"words + {offset}")};
% endfor
    return v;
}
</%def>

## For all work-items to which the barrier `wait` applies, after they have published: set is_last.  counter: the pointer
## to the output's counter; parts: the number of its groups; elected: a condition that is true for one work-item.
<%def name="arrive(counter, parts, elected, wait='barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)')">\
                GROUP_FENCE();
                ${wait};
                if (${elected}) is_last = arrives_last(${counter}, ${parts});
                ${wait};
</%def>

## The same if one work-item publishes an accumulator, `value`, at `place`.
<%def name="arrive_by_one(acc, place, value, counter, parts, elected)">\
        if (${elected}) {
            ${acc.name}_publish(${place}, ${value});
            is_last = arrives_last(${counter}, ${parts});
        }
        barrier(CLK_LOCAL_MEM_FENCE);
</%def>

## To be written after a branch that has barriers and sets a variable on which a later branch depends.  LLVM may join
## the two branches, and then PoCL 3.0 lets all work-items of a group take the same way; after a barrier it does not.
<%def name="after_branch()">\
% if target.facts.type == "cpu":
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>

## Set `total` to the parts first, first + step ..., combined in this order.  place: the pointer to part p.
<%def name="fold(acc, total, place, first, step, parts)">\
        ${total} = ${acc.name}_identity();
% if target.is_cpu:
        for (uint p = ${first}; p < ${parts}; p += ${step}) ${total} =
            ${acc.name}_combine(${total}, ${acc.name}_collect(${place}));
% else:
<% ahead = 4 if acc.bytes <= 8 else 2 %>\
        for (uint p0 = ${first}; p0 < ${parts}; p0 += ${ahead}u * ${step}) {
            uint p = p0;  // ${ahead} loads are in flight
% for u in range(ahead):
            const ${acc.name} part${u} = ${acc.name}_collect(${place});
            p = min(p + ${step}, ${parts} - 1u);
% endfor
            ${total} = ${acc.name}_combine(${total}, part0);
% for u in range(1, ahead):
            if (p0 + ${u}u * ${step} < ${parts}) ${total} = ${acc.name}_combine(${total}, part${u});
% endfor
        }
% endif
</%def>
