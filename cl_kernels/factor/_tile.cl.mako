## A group of 256 work-items and its tile V of 64 x 64 elements: see tiles.  Work-item (y, x) of 64 / R x 4 R holds in
## registers v{i}_{j} the rows R y + i and the columns x + 4 R j of V.  R is `depth`, 4 or 8.  V's rows begin at s0, its
## columns at f0; left_s and left_f of them exist, at most 64.
<%namespace name="waiting" file="/group/waiting.cl.mako"/>

## Macros: VALUE_OF_P(v), which conjugates elements of P where needed, and SUBTRACT(v, p, q): v -= p q.
<%def name="define()">
#define VALUE_OF_P(v) ${"CONJ(v)" if conj else "(v)"}
${subtraction(problem.elem)}
</%def>
<%def name="subtraction(e)">
% if e.complex:
#define SUBTRACT(v, p, q) (v.x = v.x - (p).x * (q).x, v.y = v.y - (p).x * (q).y, \
                           v.x = v.x + (p).y * (q).y, v.y = v.y - (p).y * (q).x)
% else:
#define SUBTRACT(v, p, q) (v = v - (p) * (q))
% endif
</%def>

## Set v to C.  Beyond the matrix V is extended by the unit matrix, and above L's diagonal it is 0.  For the second tile
## of a pair the arguments v and s are "w" and "f".
<%def name="input(source, v='v', s='s')">\
<%
on_diagonal = "row == col" if s == "f" else "s == f && row == col"
lower = "row <= col" if s == "f" else "(s < f || row <= col)"
%>\
% for i in range(depth):
% for j in range(16 // depth):
    {
        const int row = ${depth} * y + ${i}, col = x + ${4 * depth * j};
        ${v}${i}_${j} = AS_VALUE(${on_diagonal if factorise else "0"});
        if (row < left_${s} && col < left_f${f" && {lower}" if factorise else ""})
            ${v}${i}_${j} = ${problem.elem.name}_load(${source} + (${s}0 + row) * ${source}_row
                + (f0 + col) * ${source}_col);
    }
% endfor
% endfor
</%def>

## Declare the local memory of a group (panels of P and Q: see _panels; solved rows of V), y and x, and take a ticket.
## ready_end: up to which step the other tiles are done.  first_failed: the first column of the tile without a positive
## pivot, or 64.
<%def name="memory()">\
__local value_t p_part[${16 * 68 * panels}] __attribute__((aligned(32)));
    __local value_t solved[${(16 if paired else 2 * depth) * 68}] __attribute__((aligned(32)));
    __local value_t q_part[${16 * 68 * panels}] __attribute__((aligned(32)));
    __local uint ticket;
    __local int ready_end;
% if paired and not mma:
    __local int first_remaining;  // the first row of V that is not yet subtracted from W
% endif
% if factorise:
    __local value_t corner[${depth * depth}] __attribute__((aligned(32)));
    int failed = 64;
    real_t bad_pivot = 0;
    __local int first_failed;
% endif
    const int t = get_local_id(0), y = t / ${4 * depth}, x = t % ${4 * depth};
    if (t == 0) {
        ticket = ${waiting.ticket()};
% if paired and not mma:
        first_remaining = 64;
% endif
% if factorise:
        first_failed = 64;
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
</%def>
