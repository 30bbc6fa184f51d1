## sliding: on a GPU, a depthwise convolution along two axes, or its gradient by the input, by work-items that advance
## from row to row.  Arguments: see _axes.  An item is V neighbours (`block`) in a band of `steps` steps, of image n.
##
##   t[n, o, q] = bias[o] + sum_r s[n, o / targets, (q * step + r * tap_step + shift) / divisor] f[o, r]
##
## A work-item has V neighbours of a row, and computes a few rows of them in each step.  A step adds the products of the
## rows of the source that no step before it has loaded, each element once, to all results that need them, and meanwhile
## loads the rows of the next step:   source rows i-2 i-1 i   taps 0 1 2
## Row i completes the oldest sums; those of ahead - 1 later steps stay incomplete.  So a band begins as many early.
##
## wide      adjacent channels of a work-item     lanes    work-items side by side along the channels, whose weights
## G         work-items of a group                         are in local memory; None: side by side along a row
## row_taps  the AxisTaps of V results            V        results of a work-item in a row
## chunks    see _sliding                         rows     the SlidingRows: `at_once` rows of results are a step;
## joined    whether V results are one store               `ahead` steps read the same row, `fresh` rows are new
## register_taps  whether weights are registers   finish   the epilogue, whose rows are places along axis 2, or None
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%namespace name="sliding" file="/conv/_sliding.cl.mako"/>
<%namespace name="row" file="/conv/_row.cl.mako"/>
<%namespace name="last_step" file="/conv/_epilogue.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, vector = elem.name, row.module.vector
R, fresh, ahead, column_taps = rows.at_once, rows.fresh, rows.ahead, rows.column_taps
T, M = column_taps.taps * row_taps.taps, G // (lanes or 1)  # taps; items of a group
pitch = (lanes or 1) * wide  # channels of a group
end_of_window = column_taps.loads[-1] + 1  # rows of the source that the results of a step read
loaded = range(max(0, end_of_window - fresh), end_of_window)  # rows of a step's window that it loads
weight = lambda tap: f"w{tap}" if register_taps else f"WEIGHT({tap})"
%>
${element.scalar(elem)}
% for width in sorted({wide, V if joined else 1, *(count * wide for _, count in chunks)} - {1}):
${element.vector_load(elem, width, True)}
${element.vector_store(elem, width, True)}
% endfor
${last_step.define(elem, finish)}\
typedef ${vector(elem.real, wide)} sum_t;
% if lanes:
#define WEIGHT(tap) (*(__local const sum_t *)(weights + (tap) * ${pitch} + lane * ${wide}u))
% else:
#define WEIGHT(tap) ${E}_load(f + (tap) / ${row_taps.taps} * f_axis1 + (tap) % ${row_taps.taps} * f_axis2)
% endif

__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("sliding")}
{
    f += f_offset;
% if lanes:
    const uint lid = get_local_id(0), lane = lid % ${lanes}u;
    __local sum_t weights_of_group[${T * pitch // wide}];
    __local ${elem.real} *const weights = (__local ${elem.real} *)weights_of_group;
    const ${I} first_channel = get_group_id(0) % channel_blocks * ${pitch};
${sliding.weights(elem, row_taps, T, pitch, I)}\
    const ${I} o = first_channel + lane * ${wide}, group = o / targets;
    const ${I} item = get_group_id(0) / channel_blocks * ${M} + lid / ${lanes}u;
    if (item >= items || o >= channels || lid >= ${M * lanes}u) return;
${space.coordinates("item", order, I)}\
% else:
    const ${I} item = get_global_id(0);
    if (item >= items) return;
${space.coordinates("item", order, I)}\
    const ${I} group = o / targets;
    f += group * f_group + (o - group * targets) * f_out;
% endif
    s += s_offset + n * s_batch + group * s_channel;
    __global ${E}_t *const image = t + t_offset + n * t_batch + o * t_channel;
${last_step.image(finish, "n", "o", "0")}\
    sum_t start = (sum_t)(0);
    if (adds_bias) {
        bias += bias_offset + o * bias_step;
        start = ${row.module.strided_vector(E, "bias", "bias_step", wide)};
    }
% for tap in range(T if register_taps else 0):
    const sum_t w${tap} = WEIGHT(${tap});
% endfor
% if finish or (V > 1 and not joined):
    const ${I} end = t2_size;
% endif
    const ${I} q = block * ${V}, from = q * ${row_taps.step} / ${row_taps.divisor} + shift2;
${sliding.ranges(chunks, I)}\
% for a in range(ahead - 1):
    sum_t ${", ".join(f"open{a}_{u}_{v} = start" for u in range(R) for v in range(V))};
% endfor
    const ${I} first = band * steps, stop = min(first + steps, (t1_size + ${R - 1}) / ${R});
${sliding.fetch_rows(elem, chunks, wide, I, loaded, fresh, f"(first - {ahead - 1})", declares=True)}\
    for (${I} step = first - ${ahead - 1}; step < stop; step++) {
        const ${I} window = step * ${fresh} + shift1, next = min(step + 1, stop - 1);
% for u in range(R):
% for v in range(V):
        sum_t sum${u}_${v} = ${f"open0_{u}_{v}" if ahead > 1 else "start"};
% for a in range(ahead - 1):
        open${a}_${u}_${v} = ${f"open{a + 1}_{u}_{v}" if a + 2 < ahead else "start"};
% endfor
% endfor
% endfor
% for l in loaded:
${sliding.take(elem, chunks, wide, f"x{l}_", f"window + {l} >= 0 && window + {l} < s1_size")}\
% endfor
${sliding.fetch_rows(elem, chunks, wide, I, loaded, fresh, "next")}\
${sliding.add(rows, row_taps, loaded, weight)}\
        if (step < first) continue;
% for u in range(R):
        {
            const ${I} at1 = step * ${R} + ${u};
            __global ${E}_t *const t = image + at1 * t_axis1;
<% sums = [f"sum{u}_{v}" for v in range(V)] %>\
% if R > 1:
            if (at1 >= t1_size) break;
% endif
${last_step.apply(finish, sums, wide, wide)}\
% if joined:
            ${E}_store${V}(t + q, (${vector(elem.real, V)})(${", ".join(sums)}));
% else:
${row.store(elem, V, wide, False, I, sums)}\
% endif
        }
% endfor
    }
}
