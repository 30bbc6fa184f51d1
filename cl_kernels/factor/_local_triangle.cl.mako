## The triangles of solve in local memory, by columns, with reciprocals on their diagonals.
##
##   load(problem, policy)   lower: the triangle of work-item t of `which` matrix; zeros[which], if it is to be
##                           reported: the first column whose diagonal element is zero, or n
<%def name="load(problem, policy)"><%
e, T, N, LANES = problem.elem, policy.together, policy.rows, policy.side_m * policy.side_n
STRIDE = N + 1
%>\
% if problem.reports:
    __local int zeros[${T}];
    if (t == 0) zeros[which] = n;
% endif
<% wide = min(N, LANES)
inner, outer = ("at", "of") if problem.l.col == 1 else ("of", "at")
along = {"at": "l_col", "of": "l_row"} %>\
    for (int ${inner} = t % ${wide}; ${inner} < ${N}; ${inner} += ${wide}) {
        __global const ${e.name}_t *from = l + ${inner} * ${along[inner]} + t / ${wide} * ${along[outer]};
        const long step = ${LANES // wide} * ${along[outer]};
#pragma unroll ${min(8, max(1, N * wide // LANES))}
        for (int ${outer} = t / ${wide}; ${outer} < ${N}; ${outer} += ${LANES // wide}, from += step) {
            value_t v = (value_t)(0);
            if (of < n && at <= of) v = ${e.name}_load(from);
% if problem.l.conj:
            v.y = -v.y;
% endif
            if (at <= of) lower[at * ${STRIDE} + of] = v;
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
