## Tiles of wgmma whose k is split (see _split_k): the last group of a tile brings what the others have left by
## asynchronous copies to local memory, where its steps of k were.  Registers would hold too few loads at a time.
##
##   partial | part 0 of tile 0 | part 1 | ... | part 0 of tile 1 | ...
##             | words 0 to 3 of work-items 0, 1, ... | words 4 to 7 of work-items 0, 1, ... |
##
## A work-item copies and reads its own words only, in chunks of 8, and so waits for no other.
<%namespace name="meeting" file="/group/meeting.cl.mako"/>

<%def name="parameters()">, int whole, volatile __global uint *partial, volatile __global uint *counters</%def>

<%def name="define()">
${meeting.define()}
#define COPY_PART(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory")
#define COMMIT_PARTS() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_FOR_PARTS(pending) asm volatile("cp.async.wait_group " #pending ";" ::: "memory")
static inline float4 part_read(uint at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}
</%def>

## The tiles of a product after the first `whole` are cut, into `splits` parts.  All consumers run this; those of the last group continue with the sums of all parts, the others return.
## names: of a work-item's sums.  slot: the tile's number.
<%def name="meet(policy, names, slot)"><%
items = 128 * policy.consumers
fours, chunks = len(names) // 4, len(names) // 8
of_a = min(chunks, policy.part_room[0])
places = [f"of_a + {32 * items * i}" for i in range(of_a)] + [f"of_b + {32 * items * i}" for i in range(chunks - of_a)]
%>\
            {
                __global uint4 *at = (__global uint4 *)partial + (${slot}) * (long)splits * ${fours * items} + t;
% for i in range(fours):
                at[part * ${fours * items}l + ${items * i}] = as_uint4((float4)(${", ".join(names[4 * i:4 * i + 4])}));
% endfor
${meeting.arrive("counters + " + slot, "splits", "t == 0", wait=f'asm volatile("bar.sync 1, {items};" ::: "memory")')}\
                if (!is_last) return;
                const uint of_a = a_base + 16 * t${", of_b = b_base + 16 * t" if of_a < chunks else ""};
% for i, place in enumerate(places):
                ${copy(i, place, items)}
                COMMIT_PARTS();
% endfor
                ${" = ".join(names)} = 0;
                for (int p = 1; p <= splits; ++p) {
                    at += ${fours * items};
% for i, place in enumerate(places):
                    WAIT_FOR_PARTS(${chunks - 1});
% for half in range(2):
                    {
                        const float4 v = part_read(${place} + ${16 * items * half});
% for e in range(4):
                        ${names[8 * i + 4 * half + e]} += v.${"xyzw"[e]};
% endfor
                    }
% endfor
                    if (p < splits) {
                        ${copy(i, place, items)}
                    }
                    COMMIT_PARTS();
% endfor
                }
            }
</%def>

<%def name="copy(i, place, items)">COPY_PART(${place}, at + ${2 * items * i}); COPY_PART(${place} + ${16 * items}, at + ${2 * items * i + items});</%def>
