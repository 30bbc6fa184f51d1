## The fix-up of tiles of wgmma whose k is shared by several groups; all consumers execute it.  A group whose part is
## not the last one of its tile stores its sums for another group.  The group with the last part adds the parts of the
## others: it copies them to the local memory of A's stages and, if that does not suffice, of B's, in chunks of 8 sums.
## in_a and in_b are the places of a work-item's first chunks there:
##
##   chunk | sums 0 to 3 of work-items 0, 1, ... | sums 4 to 7 of work-items 0, 1, ... |      16 bytes each
##
## names: the names of a work-item's sums.  _wgmma_parts has the layout of `partial`, and declares the part (from,
## until: its steps of the tile's tile_steps) and the group's share of the steps (share_begin, rank; ticket, list,
## lists; share, longer: the lengths of shares).
<%def name="add_parts(policy, names)"><%
items = 128 * policy.consumers
fours, chunks = len(names) // 4, len(names) // 8
chunks_in_a = min(chunks, policy.part_capacity[0])
places = [f"in_a + {32 * items * i}" for i in range(chunks_in_a)]
places += [f"in_b + {32 * items * i}" for i in range(chunks - chunks_in_a)]
%>\
            if (until < tile_steps) {
                __global uint4 *at = (__global uint4 *)partial + ticket * ${fours * items}l + t;
% for i in range(fours):
                at[${items * i}] = as_uint4((float4)(${", ".join(names[4 * i:4 * i + 4])}));
% endfor
                barrier_arrive(stored_base);
                continue;
            }
            if (from > 0) {
                barrier_wait(ready_base, 0);
                asm volatile("bar.sync 1, ${items};" ::: "memory");  // no consumer reads the stages any more
                // The other parts are those of the shares from first_share, with the tile's first step, to rank - 1.
                const int first_share = share_of(share_begin - from, share, longer);
                __global const uint4 *at = (__global const uint4 *)partial + (first_share * lists + list)
                    * ${fours * items}l + t;
                const uint in_a = a_base + 16 * t${", in_b = b_base + 16 * t" if chunks_in_a < chunks else ""};
% for i, place in enumerate(places):
                ${copy(i, place, items)}
                COMMIT_PARTS();
% endfor
                // Each turn adds the part of share `next` - 1, and copies that of `next` if another group has it.
                for (int next = first_share + 1; next <= rank; ++next) {
                    at += lists * ${fours * items}l;
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
                    if (next < rank) {
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
