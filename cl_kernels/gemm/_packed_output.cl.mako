## The stores of the sums of a packed register tile to C: by vectors where C is contiguous along them and has no
## epilogue, else one by one.
##
## accumulators: names of the sums, in the order of _packed_tile, which names the variables in scope.
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>

<%def name="store(problem, policy, accumulators)"><%
    compute, c = problem.compute, problem.c.elem
    V, MR, NR, C = policy.vector, policy.item_m, policy.item_n, compute.components
    NV = NR // V
    plain = c == compute and not c.complex and not problem.epilogue
    triangle = local.get_namespace("/gemm/_triangle.cl.mako") if problem.triangle else None
%>\
    c += row * c_row + col * c_col;
% if plain:
    if (rows == ${MR} && skip == 0 && cols == ${NR}
        && c_col == 1${f' && {capture(triangle.inside, problem, "row", MR, "col", NR)}' if problem.triangle else ''}) {
% for i in range(MR):
% for j in range(NV):
        VEC(c + ${i} * c_row + ${j * V}) = alpha
            * c${i}_${j}_re${f" + beta * VEC(c + {i} * c_row + {j * V})" if problem.reads_c else ""};
% endfor
% endfor
        return;
    }
% endif
    real_t edge[TILE];
% for n, name in enumerate(accumulators):
    *(lanes${V}_u *)(edge + ${n * V}) = ${name};
% endfor
    for (int i = 0; i < rows; i++) {
        const real_t *at = edge + i * ${NR * C};
        __global ${c.name}_t *to = c + i * c_row;
% if problem.triangle == "upper":
        int j = MOST((long)skip, row + i - col);
% else:
        int j = skip;
% endif
% if problem.triangle == "lower":
        const int end = LEAST((long)cols, row + i - col + 1);
% endif
<% end = "end" if problem.triangle == "lower" else "cols" %>\
% if plain:
        for (; skip == 0 && c_col == 1 && j + ${V} <= ${end}; j += ${V})
            VEC(to + j) = alpha * *(const lanes${V}_u *)(at + j)${f" + beta * VEC(to + j)" if problem.reads_c else ""};
% endif
        for (; j < ${end}; j++) {
            const value_t v = ${f"(value_t)(at[j], at[{NR} + j])" if compute.complex else "at[j]"};
            ${c.name}_store(to + j * c_col, EPILOGUE(UPDATED(v, to + j * c_col), row + i, col + j));
        }
    }
</%def>
