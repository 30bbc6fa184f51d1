## The fix-up of tiles of wgmma whose k is shared by several groups (see _wgmma_parts, which also declares number, rank,
## low, share, longer, lane_of_share, from, until and all).  This is executed by all consumers.  The sums of a part that
## is not the last one of its tile are stored for another group; the group with the last part adds those of the others.
## They pass through the local memory of A's stages, from of_a on, and of B's, from of_b on, in chunks of 8 sums.
## names: the names of a work-item's sums.
<%def name="add_parts(policy, names)"><%
items = 128 * policy.consumers
fours, chunks = len(names) // 4, len(names) // 8
of_a = min(chunks, policy.part_capacity[0])
places = [f"of_a + {32 * items * i}" for i in range(of_a)] + [f"of_b + {32 * items * i}" for i in range(chunks - of_a)]
%>\
            if (until < all) {
                __global uint4 *at = (__global uint4 *)partial + number * ${fours * items}l + t;
% for i in range(fours):
                at[${items * i}] = as_uint4((float4)(${", ".join(names[4 * i:4 * i + 4])}));
% endfor
                barrier_arrive(left_base);
                continue;
            }
            if (from > 0) {
                barrier_wait(here_base, 0);
                asm volatile("bar.sync 1, ${items};" ::: "memory");  // no consumer reads the stages any more
                const int begin = share_of(low - from, share, longer);
                __global const uint4 *at = (__global const uint4 *)partial + (begin * lanes + lane_of_share)
                    * ${fours * items}l + t;
                const uint of_a = a_base + 16 * t${", of_b = b_base + 16 * t" if of_a < chunks else ""};
% for i, place in enumerate(places):
                ${copy(i, place, items)}
                COMMIT_PARTS();
% endfor
                for (int other = begin + 1; other <= rank; ++other) {
                    at += lanes * ${fours * items}l;
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
                    if (other < rank) {
                        ${copy(i, place, items)}
                    }
                    COMMIT_PARTS();
% endfor
                }
            }
</%def>

## Copy the i-th chunk of a part to the place `place` in local memory.
<%def name="copy(i, place, items)">\
COPY_PART(${place}, at + ${2 * items * i}); COPY_PART(${place} + ${16 * items}, at + ${2 * items * i + items});\
</%def>
