## A part of conv/cpu_weight: passes over a tile.
##
## A pass has F filters (or vectors of them) and C taps of each of B rows of taps, whose sums are in registers, and adds
## the products of all places of a tile.  In scope there: xs, ys, the copies of the source s and of t, the gradient of
## y; their strides: x_unit, y_unit from filter to filter (x_unit only if x_lanes), x_image, y_image from image to
## image, plane from phase to phase, pitch from row to row; count: places of a tile; own_images: images of it; sum: the
## group's sums [filter][channel][tap].

## All passes of channel c and of the taps at `a` of axis 0.  f, b, r: the first filter, row of taps and tap of a pass;
## i, u, v: one of its filters, rows and taps.  place: where the sum of (i, u, v) is in `sum`, from the pass's first sum
## on.  x_type, y_type: the C types of elements of the copies.  A phase is a remainder of positions in s by the step of
## an axis.  periods: after how many taps along axes 1 and 2 the phases repeat; phases: how many of them are copied.
<%def name="passes(x_type, y_type, phases, periods)"><%
T = taps[0] * taps[1] * taps[2]
pass_sums = [(i, u, v) for i in range(F) for u in range(B) for v in range(C)]  # filter, row and tap
place = [i * sources_at_once * T + u * taps[2] + v for i, u, v in pass_sums]
# C expressions of the vectors at place p of the copies; a number is broadcast.
def y_at(copy):
    return f"({copy})[p]" if y_lanes else f"*(const sum_t *)({copy} + p)"
def x_at(copy):
    if x_lanes: return f"({copy})[p]"
    return f"(sum_t)(({copy})[p])" if y_lanes else f"*(const anywhere_t *)({copy} + p)"
%>\
            for (int f = 0; f < ${units}; f += ${F})
            for (int b = 0; b < ${taps[1]}; b += ${B})
            for (int r = 0; r < ${taps[2]}; r += ${C}) {
                sum_t *own = sum + (f * ${sources_at_once} + c) * ${T} + (a * ${taps[1]} + b) * ${taps[2]} + r;
% for n, at in enumerate(place):
                sum_t sum${n} = own[${at}];
% endfor
% for u in range(B):
                const ${x_type} *row${u} = xs + ${"f * x_unit + " if x_lanes else ""}
                    (b + ${u}) % ${periods[0]} * ${phases[1]} * plane
                    + (b + ${u}) * ${tap_step[1]} / ${step[1]} * pitch;
% for v in range(C):
                const ${x_type} *x${u}_${v} = row${u} + (r + ${v}) * ${tap_step[2]} / ${step[2]}
                    + (r + ${v}) % ${periods[1]} * plane;
% endfor
% endfor
                for (int image = 0; image < own_images; image++) {
                    const ${y_type} *y = ys + f * y_unit + image * y_image;
                    for (int p = 0; p < count; p += ${1 if y_lanes else V}) {
% for i in range(F):
                        const sum_t y${i} = ${y_at(f"y + {i} * y_unit")};
% endfor
% for u in range(B):
% for v in range(C):
                        const sum_t read${u}_${v} = ${x_at(f"x{u}_{v} + image * x_image")};
% for i in range(F):
                        sum${pass_sums.index((i, u, v))} += read${u}_${v} * y${i};
% endfor
% endfor
% endfor
                    }
                }
% for n, at in enumerate(place):
                own[${at}] = sum${n};
% endfor
            }
</%def>
