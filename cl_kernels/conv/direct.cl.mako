## direct: a convolution, or its gradient by the input, by its definition.  Arguments: see _axes.
##
##   t[n, o, q] = bias[o] + sum_{i, r} s[n, i, (q * step + r * tap_step + shift) / divisor] f[o, i, r]
##
## where the sum runs over the channels i of o's group and over the taps r whose quotient is whole and within s.
##
##            q          q + V       a work-item has `columns` neighbours along axis 2, V of them at a time:
##   t   ├──┼──┼──┼──┤               for a row of taps it loads once the elements of s
##   s  ├─┼─┼─┼─┼─┼─┼─┤              that these V results need (row_taps.loads)
##
## A work-item of a CPU computes `lines` such rows along axis 1, with the same weights.  Launch: one for each item.
## Item: image n, `wide` channels from o on, place at0, place at1 or a band of `lines`, block of `columns` places.
## V         results at a time                    wide    adjacent channels of a work-item
## row_taps  the AxisTaps of axis 2, or None      rows    the RowReads of results (CPU); None: one by one
## finish    the epilogue (codegen.epilogue.Finish), whose rows are places along axis 2, or None
## register_taps   the numbers of taps along axes 0 and 1 if all weights of a result are in registers, else None
## ahead     whether lines of the next row are prefetched (CPU)
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="row" file="/conv/_row.cl.mako"/>
<%namespace name="reads" file="/conv/_row_reads.cl.mako"/>
<%namespace name="last_step" file="/conv/_epilogue.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%! from itertools import product %>
<%
E, weight = elem.name, row.module.weight
width, sums = (V, ["sum"]) if target.is_cpu and wide == 1 else (wide, [f"sum{v}" for v in range(V)])
rows_of_taps = list(product(*map(range, register_taps))) if register_taps else []
%>
${element.scalar(elem)}
% if width > 1:
${element.vector_load(elem, width, not target.is_cpu)}
${element.vector_store(elem, width, not target.is_cpu)}
% endif
% if rows:
% if rows.count != width:
${element.vector_load(elem, rows.count, False)}
% endif
${reads.loader(elem, rows.count)}
% endif
${last_step.define(elem, finish)}\
typedef ${row.module.vector(elem.real, width)} sum_t;

__kernel ${space.attribute()}
void ${kernel("direct")}
{
    const ${I} item = get_global_id(0);
    if (item >= items) return;
${space.coordinates("item", order, I)}\
    const ${I} o = min(channel * ${wide}, channels - ${wide});
    const ${I} group = o / targets;
    s += s_offset + n * s_batch + group * sources * s_channel;
    f += f_offset + group * f_group + (o - group * targets) * f_out;
    t += t_offset + n * t_batch + o * t_channel + at0 * t_axis0${"" if target.is_cpu else " + at1 * t_axis1"};
${last_step.image(finish, "n", "o", "at0")}\
    sum_t start = (sum_t)(0);
    if (adds_bias) {
        bias += bias_offset + o * bias_step;
        start = ${row.module.strided_vector(E, "bias", "bias_step", wide)};
    }
% for (a, b), r in product(rows_of_taps, range(row_taps.taps if row_taps else 0)):
    const ${row.module.vector(elem.real, wide)} w${a}_${b}_${r} =
        ${weight(f"f + {a} * f_axis0 + {b} * f_axis1 + {r} * f_axis2", E, wide)};
% endfor
% if rows:
    const long plane = (s0_size - 1) * s_axis0 + (s1_size - 1) * s_axis1 + s2_size;
% endif
    const ${I} end = min((block + 1) * columns, t2_size);
% if target.is_cpu:
    __global ${E}_t *const image = t;
    for (${I} at1 = band * lines; at1 < min((band + 1) * lines, t1_size); at1++) {
    __global ${E}_t *const t = image + at1 * t_axis1;
% if ahead:
    const ${I} below = min(((at1 + 1) * step1 + max((taps1 - 1) * tap_step1, 0L) + shift1) / divisor1, s1_size - 1);
% endif
% endif
    for (${I} first = block * columns; first < end; first += ${V}) {
## On a CPU the last V results of a row begin earlier, so that they end with the row: some are computed twice.
        const ${I} q = ${(f"(t2_size - {V}) % {row_taps.divisor} ? first : min(first, t2_size - {V})"
            if rows else "first")};
        sum_t ${", ".join(f"{sum} = start" for sum in sums)};
% if row_taps:
        const ${I} from = q * ${row_taps.step} / ${row_taps.divisor} + shift2;
% endif
${row.fetch_ahead(elem, row_taps, V, I) if ahead else ""}\
% if register_taps:
% for a, b in rows_of_taps:
        do {
${space.place("p0", 0, "at0", a, I, divided, "break")}\
${space.place("p1", 1, "at1", b, I, divided, "break")}\
            __global const ${E}_t *p = s + p0 * s_axis0 + p1 * s_axis1;
${row.add_to_results(elem, row_taps, V, wide, rows, I, [f"w{a}_{b}_{r}" for r in range(row_taps.taps)])}\
        } while (0);
% endfor
% else:
        for (${I} i = 0; i < sources; i++)
        for (${I} r0 = 0; r0 < taps0; r0++) {
${space.place("p0", 0, "at0", "r0", I, divided)}\
        for (${I} r1 = 0; r1 < taps1; r1++) {
${space.place("p1", 1, "at1", "r1", I, divided)}\
            __global const ${E}_t *p = s + i * s_channel + p0 * s_axis0 + p1 * s_axis1;
            __global const ${E}_t *w = f + i * f_in + r0 * f_axis0 + r1 * f_axis1;
% if row_taps:
${row.add_to_results(elem, row_taps, V, wide, rows, I,
    [weight(f"w + {r} * f_axis2", E, wide) for r in range(row_taps.taps)])}\
% else:
            for (${I} r2 = 0; r2 < taps2; r2++) {
${space.place("p2", 2, "q", "r2", I, divided)}\
                ${sums[0]} += ${E}_load${wide if wide > 1 else ""}(p + p2 * s_axis2)
                    * ${weight("w + r2 * f_axis2", E, wide)};
            }
% endif
        }
        }
% endif
${last_step.apply(finish, sums, width, wide)}\
${row.store(elem, V, wide, t_unit, I, sums)}\
    }
    ${"}" if target.is_cpu else ""}
}
