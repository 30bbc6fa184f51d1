## direct: a convolution along `count` axes by its definition.
##
##      y[i] = sum_j x[i + first - j] t[j]        along each axis, for existing x and t
##
##        x  ├──────────┤          a work-item computes W neighbours along the last axis, in a loop over
##        t      ├──┤              the elements of t
##        y   first ├────┤
##
## elem   Element of x, t and y         W          results of a work-item
## count  axes that are convolved       rank       further batch axes
## axis{c}_first, axis{c}_size: `first` and the extent of y along an axis; axis{c}_x, axis{c}_t: the extents of x and t.
## A work-item has its results in registers until they are stored.  Launch: `items`, one dimension: strips of W results
## along the last axis, then the other convolved axes, then batch items.
## x_axis{c}, x_batch{d}: strides.  i{c}, j{c}: i + first and j along an outer axis; column: the strip's first result.
<%include file="/common/prelude.cl.mako"/>
<%
last, outer = count - 1, range(count - 1)
size = elem.components
# C text of the index along each of some axes, the last of which varies fastest.
digits = axes.digits
%>
typedef ${elem.real} real_t;

__kernel
void ${kernel("direct")}
{
    const long item = get_global_id(0);
    if (item >= items)
        return;
    const long strips = (axis${last}_size + ${W - 1}) / ${W}, column = item % strips * ${W};
    const long across = item / strips;
    const long batch_item = across${"".join(f" / axis{c}_size" for c in outer)};
% if count > 1:
    const long row = across % (1${"".join(f" * axis{c}_size" for c in outer)});
% endif
    __global const real_t *x_item = x + ${size}
        * (x_offset${"".join(f" + {at} * x_batch{d}" for d, at in enumerate(digits("batch", rank, "batch_item")))});
    __global const real_t *t_item = t + ${size}
        * (t_offset${"".join(f" + {at} * t_batch{d}" for d, at in enumerate(digits("batch", rank, "batch_item")))});
    __global real_t *y_strip = y + ${size}
        * (y_offset${"".join(f" + {at} * y_batch{d}" for d, at in enumerate(digits("batch", rank, "batch_item")))});
    real_t re[${W}]${f", im[{W}]" if elem.complex else ""};
    #pragma unroll
    for (int l = 0; l < ${W}; l++)
        re[l] = ${"im[l] = " if elem.complex else ""}0;
% for c, at in enumerate(digits("axis", count - 1, "row")):
    const long i${c} = ${at} + axis${c}_first;
    y_strip += ${size} * ${at} * y_axis${c};
% endfor
    const long from = column + axis${last}_first;
% for c in outer:
    for (long j${c} = max(0L, i${c} - axis${c}_x + 1); j${c} <= min(i${c}, axis${c}_t - 1); j${c}++)
% endfor
        for (long j = max(0L, from - axis${last}_x + 1); j < min(from + ${W}, axis${last}_t); j++) {
            __global const real_t *x_at = x_item
                + ${size} * ((from - j) * x_axis${last}${"".join(f" + (i{c} - j{c}) * x_axis{c}" for c in outer)});
            __global const real_t *t_at = t_item
                + ${size} * (j * t_axis${last}${"".join(f" + j{c} * t_axis{c}" for c in outer)});
            const real_t t_re = t_at[0]${", t_im = conjugate ? -t_at[1] : t_at[1]" if elem.complex else ""};
            // Results `first` to `end` of the work-item's W have an x for this t.
            const long first = max(0L, j - from), end = min((long)${W}, axis${last}_x + j - from);
% for adjacent in (True, False):
            ${f"if (x_axis{last} == 1 && end - first == {W}) {{" if adjacent else "} else {"}
                #pragma unroll
                for (int l = 0; l < ${W}; l++) {
% if not adjacent:
                    if (l < first || l >= end)
                        continue;
% endif
                    __global const real_t *number = x_at + ${size} * l${"" if adjacent else f" * x_axis{last}"};
% if elem.complex:
                    re[l] += number[0] * t_re - number[1] * t_im, im[l] += number[0] * t_im + number[1] * t_re;
% else:
                    re[l] += number[0] * t_re;
% endif
                }
% endfor
            }
        }
    #pragma unroll
    for (int l = 0; l < ${W}; l++) {
        if (l >= axis${last}_size - column)
            break;
        __global real_t *number = y_strip + ${size} * (column + l) * y_axis${last};
        number[0] = re[l]${", number[1] = im[l]" if elem.complex else ""};
    }
}
