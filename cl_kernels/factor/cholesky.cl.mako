## cholesky: A = L L^H of `count` small matrices, on a GPU: a square of work-items for each, with A in registers.
##   work-item (y, x) of side x side holds the elements      x ->  0 1 2 0 1 2
##   (y + r side, x + c side) of the lower triangle;         y 0   .           r, c: the row and column of a
##   neighbours have neighbouring elements, and every          1   . .         square (here side is 3, and there
##   work-item has work until the last columns                 2   . . .       are 2 x 2 squares)
##                                                             0   . . . .
## For each column: the work-items that hold it write it to local memory; all read it, compute the root of its pivot,
## and subtract the product of the column with itself from the columns right of it.  Columns alternate between two
## buffers, so a column costs one barrier.
## policy    CholeskyPolicy: side, item (squares along each axis), together (matrices of a group)
## problem   CholeskyProblem           in_place   whether L replaces A; else the elements above L become zeros
## by_rows   whether neighbours along a row of L are neighbours in memory
## ragged    whether a table has n (at most `max_n`) and the offsets of each matrix: see _ragged
## n is at most side * item; beyond n the matrix is extended by the unit matrix.  A group has side^2 work-items for each
## of its `together` matrices; t is the number of a work-item among those of its matrix.
##
##   columns   local memory: buffer 0: column of matrix 0 of the group | matrix 1 | ... || buffer 1: ...
##   v<r>_<c>  registers: the element of the work-item in the square (r, c)
##   column_y<r>, column_x<c>    elements of the current column, divided by the root of its pivot: the one in row
##             y + r side, and the conjugate of the one in row x + c side
## report    for each matrix, the first column whose pivot is not positive, or -1, and the bits of that pivot.
##           The matrix may be a block of a larger one, from its column `first` on; reports of earlier blocks remain.
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="ragged_" file="/factor/_ragged.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, S, R, P = problem.elem, policy.side, policy.item, policy.together
rank, N, G = len(problem.batch), S * R, S * S * P
names = ["l"] if in_place else ["a", "l"]
position = f"x = t % {S}, y = t / {S}" if by_rows else f"y = t % {S}, x = t / {S}"
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}${numbers.root_of(e)}

__kernel ${group.of_size(G)}
void ${kernel("cholesky")}
{
    __local value_t columns[${2 * P * N}];
    const int t = get_local_id(0) % ${S * S};
    const long unclamped = get_group_id(0) * ${P}l + get_local_id(0) / ${S * S}, product = min(unclamped, count - 1);
    const int ${position};
    __local value_t *column = columns + get_local_id(0) / ${S * S} * ${N};
${operands.locate(names, rank, "product")}
% if ragged:
${ragged_.matrix(names)}
% endif
    report += report_offset + 2 * ${"report_index" if ragged else "product"};
% for r in range(R):
% for c in range(r + 1):
    value_t v${r}_${c} = AS_VALUE(y + ${r * S} == x + ${c * S});
    if (${'unclamped < count && ' if P > 1 else ''}y + ${r * S} < n && x + ${c * S} <= y + ${r * S})
        v${r}_${c} = ${e.name}_load(${names[0]} + (y + ${r * S}l) * ${names[0]}_row
            + (x + ${c * S}l) * ${names[0]}_col);
% endfor
% endfor
    int failed = -1;
    real_t bad_pivot = 0;
% for b in range(R):
    for (int j = ${b * S}; j < min(${"max_n" if ragged else "n"}, ${(b + 1) * S}); ++j) {
        const int x_of_j = j - ${b * S};  // the work-items with this x have column j
        __local value_t *shared = column + (j & 1) * ${P * N};
        if (x == x_of_j) {
% for r in range(b, R):
            shared[y + ${r * S}] = v${r}_${b};
% endfor
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const real_t pivot = REAL(shared[j]);
        if (!(pivot > 0 && pivot < (real_t)INFINITY) && failed < 0) {
            failed = j;
            bad_pivot = pivot;
        }
        const real_t scale = failed < 0 ? rsqrt(pivot) : (real_t)NAN;
% for r in range(b, R):
        const value_t column_y${r} = scale * shared[y + ${r * S}];
% endfor
% for c in range(b, R):
        const value_t column_x${c} = scale * CONJ(shared[x + ${c * S}]);
% endfor
        if (x == x_of_j) {
% for r in range(b, R):
            v${r}_${b} = column_y${r};
% endfor
            if (y == x_of_j) v${b}_${b} = AS_VALUE(pivot);
        }
% for r in range(b, R):
% for c in range(b, r + 1):
        ${"if (x > x_of_j) " if c == b else ""}v${r}_${c} -= MUL(column_y${r}, column_x${c});
% endfor
% endfor
    }
% endfor
% for r in range(R):
    if (x == y) v${r}_${r} = AS_VALUE(root_of(REAL(v${r}_${r})));
% endfor
    if (unclamped >= count) return;
    if (t == 0 && (first == 0 || (failed >= 0 && report[0] < 0))) {
        report[0] = failed < 0 ? -1 : first + failed;
        report[1] = ${"as_long(bad_pivot)" if e.needs_fp64 else "(long)as_int(bad_pivot)"};
    }
% for r in range(R):
% for c in range(r + 1 if in_place else R):
<% end_of_row = f"<= y + {r * S}" if in_place else "< n" %>\
    if (y + ${r * S} < n && x + ${c * S} ${end_of_row})
        ${e.name}_store(l + (y + ${r * S}l) * l_row + (x + ${c * S}l) * l_col, \
% if c <= r and in_place:
v${r}_${c});
% elif c <= r:
x + ${c * S} <= y + ${r * S} ? v${r}_${c} : (value_t)(0));
% else:
(value_t)(0));
% endif
% endfor
% endfor
}
