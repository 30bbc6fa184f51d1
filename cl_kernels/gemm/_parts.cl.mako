## Tiles whose k is cut into parts: each group leaves its sums in global memory, and the last of a
## tile adds them in the order of k, so that the result repeats bit by bit.
##
##   partial | part 0 of tile 0 | part 1 | ... | part 0 of tile 1 | ...
##             | word 0 of work-items 0, 1, ... | word 1 of work-items 0, 1, ... |
##
## tile: portable_gpu.ops.gemm.tiles.RegisterTile.  group: work-items.
## All work-items of a group come here with their sums of part `part` of tile number `slot` (C
## expressions); those that go on hold the sums of all parts.
<%def name="meet(tile, group, compute, slot, part)">
        volatile __global uint *words = partial + (${slot}) * (long)parts * ${tile.words * group} + t;
% for i, real in enumerate(tile.reals()):
        ${leave(tile, f"words + {part} * {tile.words * group}l + {i * tile.real_words * group}", real, group)}
% endfor
        GROUP_FENCE();
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (t == 0) is_last = comes_last(counters + ${slot}, parts);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (!is_last) return;
% for i in range(tile.item_m):
        ${" ".join(f"acc{i}_{j} = ({tile.type_n})(0);" for j in range(tile.blocks_n))}
% endfor
        for (int p = 0; p < parts; ++p, words += ${tile.words * group}) {
% for i, real in enumerate(tile.reals()):
            ${real} ${"|" if compute.name == "b8" else "+"}= ${left(tile, f"words + {i * tile.real_words * group}", group)};
% endfor
        }
</%def>

<%def name="leave(tile, place, real, group)">\
% if tile.real_words == 2:
{ const uint2 bits = as_uint2(${real}); STORE_PUBLISHED(${place}, bits.x); STORE_PUBLISHED(${place} + ${group}, bits.y); }\
% elif tile.real_bytes == 4:
STORE_PUBLISHED(${place}, as_uint(${real}));\
% else:
STORE_PUBLISHED(${place}, (uint)${real});\
% endif
</%def>

<%def name="left(tile, place, group)">\
% if tile.real_words == 2:
as_${tile.real}((uint2)(LOAD_PUBLISHED(${place}), LOAD_PUBLISHED(${place} + ${group})))\
% elif tile.real_bytes == 4:
as_${tile.real}(LOAD_PUBLISHED(${place}))\
% else:
(${tile.real})LOAD_PUBLISHED(${place})\
% endif
</%def>
