## weight: the gradient of a convolution by its weights.  Arguments: see _axes.
##
##   f[k, c, r] = sum_{n, q} t[n, k, q] s[n, c, q * step + r * tap_step + shift]    s: x;  t: the gradient of y
##
## A work-group has a block of pairs (k, c) of channels, a block of taps of the filter, and a part of the places (n, q):
##
##   places   | part 0 | part 1 | ...      The group has lanes * wide pairs.  M of its work-items, M = G / lanes, share
##            |0 1 .. M|0 1 .. M|          the places of a pair.  A work-item reads V places of axis 2 at a time.
##
## The group adds its work-items' sums in local memory.  The last group of a block to finish adds the parts in order,
## so the result does not depend on which group is last.
##
## G      work-items of a group                              wide   pairs of a work-item, adjacent in memory
## lanes  work-items side by side, each with its own pairs   taps   the number of taps of a group along each axis
## V      places at a time                                   order  the coordinates of V places, the fastest last
## row_taps  the AxisTaps of axis 2                          rows   the RowReads of a row by vectors of V places (CPU);
##                                                                  None: elements are read singly
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="row" file="/conv/_row.cl.mako"/>
<%namespace name="reads" file="/conv/_row_reads.cl.mako"/>
<%namespace name="sums" file="/conv/_sums.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, real = elem.name, elem.real
width = max(V, wide) if target.is_cpu else wide  # elements of a vector: of places, or of pairs
T, pitch = taps[0] * taps[1] * taps[2], G * wide  # taps of a group; numbers of a tap in scratch
sums_are_vectors = target.is_cpu and V > 1  # the components are added at the end
words = fix_up.module.words(real)  # words of 32 bits in a sum
vector = row.module.vector
%>
${element.scalar(elem)}
% if width > 1:
${element.vector_load(elem, width, not target.is_cpu)}
% endif
% if rows:
% if rows.count != width:
${element.vector_load(elem, rows.count, False)}
% endif
${reads.loader(elem, rows.count)}
% endif
typedef ${vector(real, width)} sum_t;
${fix_up.define()}

__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("weight")}
{
    ${"" if target.is_cpu else "__local "}${real} scratch[${T * pitch}];
    ${"" if G == 1 else "__local "}uint is_last;
    const uint lid = get_local_id(0), lane = lid % ${lanes}u, number = get_group_id(0);
    const ${I} part = number % parts, block = number / parts;
    // A block of pairs and a block of taps; pair: the number k * sources + c of the work-item's first pair.
    const ${I} first_pair = block / tap_blocks * ${lanes * wide}, tap_block = block % tap_blocks;
    const ${I} tap0 = tap_block / (tap_blocks1 * tap_blocks2) * ${taps[0]};
    const ${I} tap1 = tap_block / tap_blocks2 % tap_blocks1 * ${taps[1]}, tap2 = tap_block % tap_blocks2 * ${taps[2]};
    const ${I} pair = min(first_pair + (${I})lane * ${wide}, pairs - ${wide}), k = pair / sources;
    s += s_offset + (k / targets * sources + pair % sources) * s_channel;
    t += t_offset + k * t_channel;
% for a in range(T):
    sum_t sum${a} = (sum_t)(0);
% endfor
% if rows:
    const long plane = (s0_size - 1) * s_axis0 + (s1_size - 1) * s_axis1 + s2_size;
% endif
    const ${I} end = min((part + 1) * part_size, places);
    for (${I} place = part * part_size + lid / ${lanes}u; place < end; place += ${G // lanes}) {
${space.coordinates("place", order, I)}\
        const ${I} q = block2 * ${V}, from = q * step2 + tap2 * tap_step2 + shift2;
        __global const ${E}_t *y = t + n * t_batch + at0 * t_axis0 + at1 * t_axis1 + q * t_axis2;
% if width == V > 1 and target.is_cpu:
<% loaded_singly = row.module.strided_vector_inside(E, "y", "t_axis2", V, 2) %>\
## y0: the V places, as one load if they are adjacent and inside of the row.
        const sum_t y0 = ${f"t_axis2 == 1 && q + {V} <= t2_size ? {E}_load{V}(y) :" if rows else ""}
            ${loaded_singly};
% elif wide > 1 and target.is_cpu:
        const sum_t y0 = ${E}_load${wide}(y);
% else:
% for v in range(V):
        const sum_t y${v} = q + ${v} < t2_size ? ${E}_load${wide if wide > 1 else ""}(y + ${v} * t_axis2) : (sum_t)(0);
% endfor
% endif
% for a in range(taps[0]):
% for b in range(taps[1]):
        do {
${space.place("p0", 0, "at0", f"(tap0 + {a})", I, False, "break")}\
${space.place("p1", 1, "at1", f"(tap1 + {b})", I, False, "break")}\
            __global const ${E}_t *p = s + n * s_batch + p0 * s_axis0 + p1 * s_axis1;
${row.add_to_weights(elem, row_taps, V, wide, rows, I,
    [f"sum{(a * taps[1] + b) * taps[2] + r}" for r in range(taps[2])])}\
        } while (0);
% endfor
% endfor
    }
% for a in range(T):
% if wide > 1:
% for l in range(wide):
    scratch[${a * pitch + l} + lid * ${wide}u] = sum${a}${row.module.component(wide, l)};
% endfor
% else:
<% components = [f"sum{a}{row.module.component(V, v)}" for v in range(V)] if sums_are_vectors else [f"sum{a}"] %>\
    scratch[${a * pitch} + lid] =
        ${" + ".join(components)};
% endif
% endfor
% if G > lanes:
    for (uint lower = ${G // 2}; lower >= ${lanes}u; lower /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < lower) {
% for at in (f"{a * pitch + l} + {'lid' if wide == 1 else f'{wide}u * lid'}" for a in range(T) for l in range(wide)):
            scratch[${at}] += scratch[${at} + ${"lower" if wide == 1 else f"{wide}u * lower"}];
% endfor
        }
    }
% endif
% if G > 1:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
${sums.store(taps, ("tap0", "tap1", "tap2"), pitch, words)}\
}
