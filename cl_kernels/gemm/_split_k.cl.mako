## Tiles whose k is split: each group stores its sums in global memory, and the last group of a tile to arrive adds
## them in the order of k, so that the result is the same in every run (see group/fix_up).
##
##   partial | part 0 of tile 0 | part 1 | ... | part 0 of tile 1 | ...
##             | word 0 of work-items 0, 1, ... | word 1 of work-items 0, 1, ... |
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>

<%def name="define()">${fix_up.define()}</%def>

## This is executed by all `items` work-items that hold sums of a tile.  Those of the last group continue with the sums
## of all parts; the others return.
##
## sums     portable_gpu.codegen.operators.Sums: their names and types      item    C text, the work-item's number
## slot     C text, the tile's number in `partial` and `counters`           part    C text, the number of the part
## splits   C text, how many parts there are
## In scope: partial, counters; is_last, a __local uint.
<%def name="add_parts(sums, item, items, slot, part, splits)">
<%
size = sums.words * items  # words of a part
words = range(0, sums.words, sums.words_each)  # the first word of each sum
%>\
            {
                volatile __global uint *at = partial + (${slot}) * (long)${splits} * ${size} + ${item};
% for word, name in zip(words, sums.names):
                ${fix_up.publish(sums.real, f"at + {part} * {size}l + {word * items}", name, items)}
% endfor
${fix_up.arrive(f"counters + {slot}", splits, f"{item} == 0")}\
                if (!is_last) return;
                ${" = ".join(sums.names)} = 0;
                for (int p = 0; p < ${splits}; ++p, at += ${size}) {
% for word, name in zip(words, sums.names):
                    ${name} ${sums.plus}= ${fix_up.collect(sums.real, f"at + {word * items}", items)};
% endfor
                }
            }
</%def>
