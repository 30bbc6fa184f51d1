## The stores of the sums of a register tile of packed and packed_whole to C: as vectors if C is contiguous along them
## and has no epilogue, else one by one.
##
## triangle: "lower", "upper" or "", as in the problem; or "any": of row r, the columns from r - under to r + over are
## stored, where over and under are arguments.  The tile's first element is (row, col) of C; rows [0, rows) and columns
## [skip, cols) of the tile are stored.
## accumulators: names of the sums, in the order of _packed_tile, which names the variables in scope.
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>

<%def name="store(problem, policy, accumulators, triangle)"><%
    compute, c = problem.compute, problem.c.elem
    V, MR, NR, C = policy.vector, policy.item_m, policy.item_n, compute.components
    NV = NR // V
    over = {"any": "over", "lower": "0"}.get(triangle)
    under = {"any": "under", "upper": "0"}.get(triangle)
    end = "end" if over else "cols"
    # Whether sums may be stored as vectors.
    plain = c == compute and not c.complex and not problem.epilogue
%>\
    c += row * c_row + col * c_col;
% if plain:
    if (rows == ${MR} && skip == 0 && cols == ${NR} && c_col == 1
        ${f"&& col + {NR - 1} - row <= {over}" if over else ""}
        ${f"&& row + {MR - 1} - col <= {under}" if under else ""}) {
% for i in range(MR):
% for j in range(NV):
<% at = f"c + {i} * c_row + {j * V}" %>\
        VEC(${at}) = alpha
            * c${i}_${j}_re${f" + beta * VEC({at})" if problem.reads_c else ""};
% endfor
% endfor
        return;
    }
% endif
    // The tile's sums, by rows of NR (of complex numbers: NR re, then NR im).
    real_t tile_sums[TILE];
% for n, name in enumerate(accumulators):
    *(lanes${V}_u *)(tile_sums + ${n * V}) = ${name};
% endfor
    for (int i = 0; i < rows; i++) {
        const real_t *row_sums = tile_sums + i * ${NR * C};
        __global ${c.name}_t *to = c + i * c_row;
        int j = ${f"MOST((long)skip, row + i - {under} - col)" if under else "skip"};
% if over:
        const int end = LEAST((long)cols, row + i + ${over} - col + 1);
% endif
% if plain:
        for (; skip == 0 && c_col == 1 && j + ${V} <= ${end}; j += ${V})
            VEC(to + j) = alpha
                * *(const lanes${V}_u *)(row_sums + j)${f" + beta * VEC(to + j)" if problem.reads_c else ""};
#pragma clang loop vectorize(disable) unroll(disable)  // fewer than a vector, or elements apart in memory
% endif
        for (; j < ${end}; j++) {
            const value_t v = ${f"(value_t)(row_sums[j], row_sums[{NR} + j])" if compute.complex else "row_sums[j]"};
            ${c.name}_store(to + j * c_col, EPILOGUE(UPDATED(v, to + j * c_col), row + i, col + j));
        }
    }
</%def>
