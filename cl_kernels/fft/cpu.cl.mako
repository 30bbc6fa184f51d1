## Transforms on a CPU, as many side by side as a vector has lanes, by one work-item.
##
##      source ──bring──▶ scratch: n rows of (re, im) ──stages, in place──▶ ──fetch──▶ target
##
## A work-item has scratch of its own, and takes `run` strips of lanes one after the other.
##
## source, result   Side: the form of a row, and the layout of lanes    planes   transforms in a lane
## policy           CpuFftPolicy                                         radices  of the stages
##                  result.times: an array t that results are multiplied by, number by number
## twisted          whether the rows of the target are multiplied by roots of one (Cooley and Tukey's twiddles):
##                  this is the first of two passes of a long transform
## rank             number of batch axes besides the lanes
##
## Two real transforms are one complex one: real numbers are brought as re and im, and the rows k and n - k
## of the result make up row k of both.  The other direction (flip) exchanges re and im on both sides.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="butterflies" file="/fft/_butterflies.cl.mako"/>
<%namespace name="stages" file="/fft/_stages.cl.mako"/>
<%namespace name="bring" file="/fft/_cpu_bring.cl.mako"/>
<%namespace name="fetch" file="/fft/_cpu_fetch.cl.mako"/>
<%namespace name="vectors" file="/fft/_cpu_vectors.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
V, suffix = policy.vector, "" if real.needs_fp64 else "f"
sides = {"x": source, "y": result}
%>
${vectors.types(real, V)}
${butterflies.define(radices, suffix)}
${stages.define(radices)}
${vectors.transpose(V)}
${bring.define(source, V, planes)}
${fetch.define(result, V, planes, twisted)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void fft(__global real_t *scratch, long size, __global const real_t *roots, __global const int *order,
         long n, long lanes, long strips, long run, int flip, real_t scale\
% if twisted:
, __global const real_t *fine, __global const real_t *coarse\
% endif
% if result.times:
, __global const real_t *t, long t_offset, long t_row, long t_lane, int t_conjugate${''.join(f', long t_batch{d}' for d in range(rank))}\
% endif
, long y_first, long y_begin\
% for name, side in sides.items():
, __global ${"const " if name == "x" else ""}real_t * ${name}, long ${name}_offset, long ${name}_rows, long ${name}_row, long ${name}_lane, long ${name}_limit, long ${name}_limit_row${''.join(f', long {name}_batch{d}' for d in range(rank))}\
% if side.factor:
, __global const real_t *${name}_factor\
% endif
% endfor
${''.join(f', long batch{d}_size' for d in range(rank))})
{
    __global vec_t *s = (__global vec_t *)(scratch + get_global_id(0) * size);
    __global const int *place = order + ORDER_AT;
    const long across = (lanes + ${V * planes - 1}) / ${V * planes};
    const long first = get_global_id(0) * run;
    for (long strip = first; strip < min(strips, first + run); strip++) {
        const long batch_item = strip / across, lane = strip % across * ${V * planes};
        const long live = min(lanes - lane, (long)${V * planes});
        __global const real_t *a = x + ${source.components} * (x_offset + lane * x_lane\
${"".join(f" + {at} * x_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))});
        __global real_t *b = y + ${result.components} * (y_offset + lane * y_lane\
${"".join(f" + {at} * y_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item")))});
        bring(s, n, flip, a, x_rows, x_row, x_lane, lane, live, x_limit, x_limit_row${", x_factor" if source.factor else ""});
        transform(s, roots, order, n);
        store(s, place, n, flip, scale, b, y_rows, y_row, y_lane, lane, live, y_limit, y_limit_row, y_first, y_begin\
${", y_factor" if result.factor else ""}${", t + 2 * (t_offset + lane * t_lane" + "".join(f" + {at} * t_batch{d}" for d, at in enumerate(axes.digits("batch", rank, "batch_item"))) + "), t_row, t_lane, t_conjugate" if result.times else ""}${f", fine, coarse + lane / {V * planes} * 2 * n" if twisted else ""});
    }
}
