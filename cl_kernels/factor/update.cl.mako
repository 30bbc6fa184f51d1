## update: B2 -= L21 X1 of pairs (L, B) of different sizes, on a GPU.  There is a work-item for each column of B;
## `groups` groups for each pair.
##
##      +----+              +-- group --+ k       A group copies 16 rows of L21 to local memory, 32 columns
##      |L11 |              |    X1     |         at a time; a work-item has the sums of those 16 rows for
##      +----+----+         +-----------+         its column in registers.
##      |L21 |    | n       |    B2     | n
##      +----+----+         +-----------+
##
##   tile     local memory: 32 columns of 16 elements of L21
##
## table    see _ragged: n and m of B2, the offsets of L21 and of X1      k   rows of X1
## lanes    work-items of a group        conj   whether L21 is conjugated
## along_rows   whether neighbours along a row of L21 are neighbours in memory
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, G, R, K = problem.elem, lanes, 16, 32
%>
${element.scalar(e)}
${epilogue.values(e)}

__kernel ${group.of_size(G)}
void ${kernel("update")}
{
    __local value_t tile[${R * K}];
    const int t = get_local_id(0);
    const long product = get_group_id(0) / groups, column = get_group_id(0) % groups * ${G} + t;
${operands.locate(["l", "b"], 0, "product")}
${ragged_.pair()}
    if (column - t >= m) n = 0;  // no return, because some OpenCL implementations for CPUs mishandle barriers after one
    for (int i = 0; i < n; i += ${R}) {
% for r in range(R):
        value_t s${r} = (value_t)(0);
% endfor
        for (int j = 0; j < k; j += ${K}) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int at = t; at < ${R * K}; at += ${G}) {
                const int row = ${f"at / {K}" if along_rows else f"at % {R}"},
                    col = ${f"at % {K}" if along_rows else f"at / {R}"};
                value_t v = (value_t)(0);
                if (i + row < n && j + col < k) v = ${e.name}_load(l + (i + row) * l_row + (j + col) * l_col);
% if conj:
                v.y = -v.y;
% endif
                tile[col * ${R} + row] = v;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (column < m)
                for (int c = 0; c < min(${K}, k - j); ++c) {
                    const value_t x = ${e.name}_load(b + (j + c) * b_row + column * b_col);
% for r in range(R):
                    s${r} += MUL(tile[c * ${R} + ${r}], x);
% endfor
                }
        }
% for r in range(R):
        if (column < m && i + ${r} < n) b[(k + i + ${r}) * b_row + column * b_col] -= s${r};
% endfor
    }
}
