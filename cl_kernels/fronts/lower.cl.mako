## Gather to[k] = from[take[k]], the values of the lower triangle of a sparse Hermitian matrix.  Set doubt[0] to 1 if
## the host has to check the matrix: a value is not finite, differs from its mirror image from[mirror[k]], or is complex
## on the diagonal.
##
## e                Element of the values
## take, mirror     indices in `from`, of type `index`; -1 stands for a zero that is not stored
## compares         whether both triangles are given; if not, `conjugates` says whether values are conjugated
## rounding         the largest accepted difference of mirror images, relative to the larger one, or to the product of
##                  the square roots of the diagonal elements of its row and column
## start, column    the rows of the lower triangle, as in CSR; columns ascend, so the diagonal is last
## n, count         rows; elements               size   work-items of a group
## A work-item gathers `run` adjacent elements.
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
largest = "DBL_MAX" if e.needs_fp64 else "FLT_MAX"
# C texts: the magnitudes of the parts of v (real and imaginary), whether they are finite, and the larger one.
parts = lambda v: [f"ABS({v}.x)", f"ABS({v}.y)"] if e.complex else [f"ABS({v})"]
is_finite = lambda v: " && ".join(f"{part} <= {largest}" for part in parts(v))
size_of = lambda v: f"LARGER({', '.join(parts(v))})" if e.complex else parts(v)[0]
%>
#define LARGER(p, q) ((p) > (q) ? (p) : (q))
${element.scalar(e)}

% if compares:
// The square root of a row's diagonal element; 0 if it is not stored.
static inline ${e.real} root_of_diagonal(__global const long *start, __global const int *column,
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
    long row = 0, end_row = n;  // bisection for the row of element `begin`
    while (end_row - row > 1) {
        const long middle = (row + end_row) / 2;
        if (start[middle] <= begin) row = middle; else end_row = middle;
    }
    int doubtful = 0;
    for (long at = begin; at < end; at++) {
        while (start[row + 1] <= at) row++;
        const long place = take[at];
        ${e.value} v = (${e.value})(0);
        if (place >= 0) v = from[place];
        doubtful |= !(${is_finite("v")});
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
        doubtful |= !(${is_finite("w")});
% if e.complex:
        w.y = diagonal ? 0 : -w.y;
% endif
        const ${e.value} deviation = v - w;
        const ${e.real} difference = ${" + ".join(parts("deviation"))};
        if (!(difference <= ${rounding} * LARGER(${size_of("v")}, ${size_of("w")})))
            doubtful |= !(difference <= ${rounding} * root_of_diagonal(start, column, take, from, row)
                * root_of_diagonal(start, column, take, from, column[at]));
% endif
        to[to_offset + at] = v;
    }
    if (doubtful) atomic_or(doubt + doubt_offset, 1);
}
