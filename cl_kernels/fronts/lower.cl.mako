## Gather to[k] = from[take[k]], the lower triangle of stored values.  Set doubt[0] if the host has to check the
## matrix: a value is not finite, differs from its mirror image from[mirror[k]], or is complex on the diagonal.
##
## e                Elements        index    the type of take and mirror, which are -1 for a zero that is not stored
## compares         whether there are mirror images; if not, `conjugates` says whether values are conjugated
## rounding         the tolerance of mirror images, relative to the largest of them and of their rows' scale
## start, column    the rows, as in CSR, columns ascending
## size             work-items of a group, `run` elements each
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
largest = "DBL_MAX" if e.needs_fp64 else "FLT_MAX"
parts = (lambda v: [f"ABS({v}.x)", f"ABS({v}.y)"]) if e.complex else (lambda v: [f"ABS({v})"])
whole = lambda v: " && ".join(f"{part} <= {largest}" for part in parts(v))
size_of = lambda v: f"LARGER({', '.join(parts(v))})" if e.complex else parts(v)[0]
%>
#define LARGER(p, q) ((p) > (q) ? (p) : (q))
${element.scalar(e)}

% if compares:
// The square root of a row's diagonal element.
static inline ${e.real} magnitude(__global const long *start, __global const int *column,
    __global const ${index} *take, __global const ${e.name}_t *from, long row)
{
    const long last = start[row + 1] - 1;
    if (last < start[row] || column[last] != row || take[last] < 0) return 0;
    return sqrt(fabs(from[take[last]]${".x" if e.complex else ""}));
}
% endif

__kernel ${group.of_size(size)}
void ${kernel("lower")}
{
    const long begin = get_global_id(0) * run, end = begin + run < count ? begin + run : count;
    if (begin >= end) return;
    from += from_offset;
    long row = 0, behind = n;
    while (behind - row > 1) {
        const long middle = (row + behind) / 2;
        if (start[middle] <= begin) row = middle; else behind = middle;
    }
    int doubtful = 0;
    for (long at = begin; at < end; at++) {
        while (start[row + 1] <= at) row++;
        const long place = take[at];
        ${e.value} v = (${e.value})(0);
        if (place >= 0) v = from[place];
        doubtful |= !(${whole("v")});
% if e.complex:
% if conjugates:
        v.y = -v.y;
% endif
        const int diagonal = column[at] == row;
        if (diagonal) {
            doubtful |= ABS(v.y) > ${rounding} / 2 * ABS(v.x);
            v.y = 0;
        }
% endif
% if compares:
        const long image = mirror[at];
        ${e.value} w = (${e.value})(0);
        if (image >= 0) w = from[image];
        doubtful |= !(${whole("w")});
% if e.complex:
        w.y = diagonal ? 0 : -w.y;
% endif
        const ${e.value} apart = v - w;
        const ${e.real} difference = ${" + ".join(parts("apart"))};
        if (!(difference <= ${rounding} * LARGER(${size_of("v")}, ${size_of("w")})))
            doubtful |= !(difference <= ${rounding} * magnitude(start, column, take, from, row)
                * magnitude(start, column, take, from, column[at]));
% endif
        to[to_offset + at] = v;
    }
    if (doubtful) atomic_or(doubt + doubt_offset, 1);
}
