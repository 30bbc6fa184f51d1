## The lower triangles of the kernel solve in local memory, with reciprocals on their diagonals: element (i, k) is at
## k (N + 1) + i, so that columns begin in different banks.  N: policy.rows; elements beyond n are 0.
##
##   load(problem, policy)   load the triangle of matrix `which` of the group to `lower`.  If zeros are reported, set
##                           zeros[which] to the first column whose diagonal element is zero, or to n; columns are
##                           counted from the last one if the triangle is solved backwards
## In scope: t, the number of the work-item among the LANES of a matrix; which; lower; n; l, l_row and l_col.
<%def name="load(problem, policy)"><%
e, T, N, LANES = problem.elem, policy.together, policy.rows, policy.side_m * policy.side_n
STRIDE = N + 1
%>\
% if problem.reports:
    __local int zeros[${T}];
    if (t == 0) zeros[which] = n;
% endif
<%
# The inner index is that of neighbours in memory: the column k or the row i.
inner_lanes = min(N, LANES)
inner, outer = ("k", "i") if problem.l.col == 1 else ("i", "k")
along = {"k": "l_col", "i": "l_row"} %>\
    for (int ${inner} = t % ${inner_lanes}; ${inner} < ${N}; ${inner} += ${inner_lanes}) {
        __global const ${e.name}_t *from = l + ${inner} * ${along[inner]} + t / ${inner_lanes} * ${along[outer]};
        const long step = ${LANES // inner_lanes} * ${along[outer]};
#pragma unroll ${min(8, max(1, N * inner_lanes // LANES))}
        for (int ${outer} = t / ${inner_lanes}; ${outer} < ${N}; ${outer} += ${LANES // inner_lanes}, from += step) {
            value_t v = (value_t)(0);
            if (i < n && k <= i) v = ${e.name}_load(from);
% if problem.l.conj:
            v.y = -v.y;
% endif
            if (k <= i) lower[k * ${STRIDE} + i] = v;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% if not problem.unit:
% if N <= LANES:
    const int i = t;
    if (i < n) {
% else:
    for (int i = t; i < n; i += ${LANES}) {
% endif
        const value_t v = lower[i * ${STRIDE + 1}];
% if problem.reports:
        if (${"v.x == 0 && v.y == 0" if e.complex else "v == 0"})
            atomic_min(zeros + which, ${'i' if problem.reports == 'forwards' else 'n - 1 - i'});
% endif
        lower[i * ${STRIDE + 1}] = reciprocal(v);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>
