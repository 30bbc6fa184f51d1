## A step of mfma, a tile of A and of B: its copy to local memory, and its products.
##
## policy, a, b, instruction, tail: as in mfma.  In scope: a_local, b_local; steps, their number; buffer, the number of
## the current buffer if there are two; tail, the steps of k in the last tile.
<%namespace name="chunks" file="/gemm/_chunks.cl.mako"/>
<%namespace name="mfma" file="/gemm/_mfma.cl.mako"/>
<%!
from itertools import product
%>

## An expression: the start of the current buffer, in chunks of 16 bytes.
<%def name="start(lines)">${f"buffer * {8 * lines.extent}" if policy.buffers == 2 else "0"}</%def>

## Load the operands of step `step` to registers; store them in the current buffer.
<%def name="load(step)">
% if tail:
            if (${step} == steps - 1 && tail < ${a.depth}) {
                ${chunks.load(a, ends=True)}
                ${chunks.load(b, ends=True)}
            } else
% endif
            {
                ${chunks.load(a)}
                ${chunks.load(b)}
            }
</%def>

<%def name="store()">
                ${chunks.store(a, capture(start, a))}
                ${chunks.store(b, capture(start, b))}
</%def>

## All products of the chunks that the lanes of a wavefront read: sums d<i>_<j> of the i-th square down and the j-th to
## the right.  In scope: lane, the row (column) in a square; rows_at, cols_at, the wavefront's first row and column in
## the tile; chunk, the number of the lane's chunk along k.
<%def name="multiply()">
<% side = instruction.side %>\
% for i in range(policy.wave_m // side):
                    const uint4 a${i} = a_local[${start(a)} + CHUNK(${a.extent}, rows_at + ${i * side} + lane, chunk)];
% endfor
% for j in range(policy.wave_n // side):
                    const uint4 b${j} = b_local[${start(b)} + CHUNK(${b.extent}, cols_at + ${j * side} + lane, chunk)];
% endfor
% for first in range(0, 4, instruction.words):
% for i, j in product(range(policy.wave_m // side), range(policy.wave_n // side)):
                    MFMA(d${i}_${j}, a${i}.${mfma.words(instruction, first)}, b${j}.${mfma.words(instruction, first)});
% endfor
% endfor
</%def>
