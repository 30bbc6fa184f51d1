## Tiles whose k is split: each group stores its sums in global memory, and the last group of a tile adds
## them in the order of k, so that results are reproducible bit by bit.
##
##   partial | part 0 of tile 0 | part 1 | ... | part 0 of tile 1 | ...
##             | word 0 of work-items 0, 1, ... | word 1 of work-items 0, 1, ... |
<%namespace name="group" file="/group/group.cl.mako"/>

## comes_last: see group.arrival.
<%def name="define()">
${group.arrival("comes_last")}
</%def>

<%def name="parameters()">, volatile __global uint *partial, volatile __global uint *counters</%def>

## All `items` work-items that hold sums of a tile run this.  Those of the last group continue with the
## sums of all parts; the others return.
##
## sums  Sums: names and type of the sums      item  number of the work-item      wait  their barrier
## slot, part, splits  numbers of the tile and of the part, and how many parts there are
<%def name="meet(sums, item, items, slot, part, splits, wait='barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)')">
<% size, words = sums.words * items, range(0, sums.words, sums.words_each) %>\
            {
                volatile __global uint *at = partial + (${slot}) * (long)${splits} * ${size} + ${item};
% for word, name in zip(words, sums.names):
                ${publish(sums, f"at + {part} * {size}l + {word * items}", name, items)}
% endfor
                GROUP_FENCE();
                ${wait};
                if (${item} == 0) is_last = comes_last(counters + ${slot}, ${splits});
                ${wait};
                if (!is_last) return;
                ${" = ".join(sums.names)} = 0;
                for (int p = 0; p < ${splits}; ++p, at += ${size}) {
% for word, name in zip(words, sums.names):
                    ${name} ${sums.plus}= ${collect(sums, f"at + {word * items}", items)};
% endfor
                }
            }
</%def>

<%def name="publish(sums, place, name, items)">\
% if sums.words_each == 2:
{ const uint2 bits = as_uint2(${name}); STORE_PUBLISHED(${place}, bits.x); STORE_PUBLISHED(${place} + ${items}, bits.y); }\
% elif sums.real in ('float', 'int', 'uint'):
STORE_PUBLISHED(${place}, as_uint(${name}));\
% else:
STORE_PUBLISHED(${place}, (uint)${name});\
% endif
</%def>

<%def name="collect(sums, place, items)">\
% if sums.words_each == 2:
as_${sums.real}((uint2)(LOAD_PUBLISHED(${place}), LOAD_PUBLISHED(${place} + ${items})))\
% elif sums.real in ('float', 'int', 'uint'):
as_${sums.real}(LOAD_PUBLISHED(${place}))\
% else:
(${sums.real})LOAD_PUBLISHED(${place})\
% endif
</%def>
