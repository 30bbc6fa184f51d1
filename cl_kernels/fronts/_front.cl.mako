## The tables of the fronts of a sparse factor: see portable_gpu/ops/fronts/table.py.  A front factorises its own
## columns, c of them, which are its first ones, and passes the u x u update of its other rows to its parent.
##
##   front(s, name="", only=FIELDS)   declare columns, rows, ... of front s, or those of them in `only`, as constants
##                      with the prefix `name`.  ops/fronts/table.py says what each field is
##   place()            packed_place(i, j, u): the position of (i, j), i >= j, in an update of u rows, in rectangular
##                      full packed form: see _blocks
##   first_from()       first_from(numbers, count, least): the index of the first number >= least; numbers ascend
##   triangle(e, lanes) copy L11 to local memory as TRIANGLE(i, k), a macro of the kernel, by `lanes` work-items, and
##                      compute inverse[i], the reciprocals of its diagonal.  In scope: t, the number of the work-item;
##                      l, the pointer to the panel, with rows `leading` apart; c, the own columns
<%! from portable_gpu.ops.fronts.table import FIELDS %>
<%def name="front(s, name='', only=FIELDS)">\
% for k, field in enumerate(FIELDS):
% if field in only:
    const long ${name}${field} = fronts[${len(FIELDS)} * (long)(${s}) + ${k}];
% endif
% endfor
</%def>

<%def name="place()">
static inline long packed_place(long i, long j, long u)
{
    const long w = (u + 1) / 2, e = 1 - u % 2;
    return j < w ? (i + e) * w + j : (j - w) * w + i - w + 1 - e;
}
</%def>

<%def name="first_from()">
// The index of the first of `count` ascending numbers that is at least `least`, or `count`.
static inline int first_from(__global const int *numbers, int count, int least)
{
    int from = 0;
    while (count > 0) {
        const int half_ = count / 2;
        if (numbers[from + half_] < least) {
            from += half_ + 1;
            count -= half_ + 1;
        } else
            count = half_;
    }
    return from;
}
</%def>

<%def name="triangle(e, lanes)">\
for (int at = t; at < c * c; at += ${lanes}) {
        const int i = at / c, k = at % c;
        if (k > i) continue;
        const value_t d = ${e.name}_load(l + i * leading + k);
        TRIANGLE(i, k) = d;
        if (k == i) inverse[i] = 1 / REAL(d);
    }
</%def>
