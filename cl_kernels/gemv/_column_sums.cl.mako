## Adds, in local memory, the sums that the work-items of a group hold at the end of axpy_columns' loop.
##
##   all[row * columns + column]     an array of sums in local memory; columns is a power of two
##   results of a block              vector 0: its W * V outputs | vector 1 | ...    result r belongs to output
##                                   first_output + r % (W * V) of vector r / (W * V)
##   partial, in words of 32 bits    part 0: vector 0: the reals of all outputs | vector 1 | ... || part 1 ...
##
## elem, real, P, C, T, E, G, W, Q, V, conj, finish, split, together: as in axpy_columns.  In scope, from there: k, lid,
## s<q> and t<q>; `sums` and `all`, one local array as vectors of C reals and as elements; first_output, part, m,
## partial, y and its strides, vectors, alpha, beta, reads_y.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%!
FEW_ROWS = 32  # one work-item adds up to 32 rows of a column; the two barriers of sharing cost as much

def sharers(rows, columns, G):
    """The work-items for each column: a power of two, about the square root of the rows, as G permits."""
    count = 1
    while rows > FEW_ROWS and count * count < rows and 2 * count * columns <= G:
        count *= 2
    return count
%>

## Add the rows of `all`; the caller has issued a barrier.  `column_<r>` of work-item i is then the sum of column
## i + r * G, if that column exists.
<%def name="add_rows(rows, columns)">\
<% shared_by = sharers(rows, columns, G); active = shared_by * columns %>\
% if shared_by > 1:
    {
        ${E} sum = 0;  // of one of ${shared_by} shares of the rows of a column; lid is first row * ${columns} + column
        if (lid < ${active}u) {
            for (uint row = 0; row < ${rows}u; row += ${shared_by}u) sum += all[row * ${columns}u + lid];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < ${active}u) all[lid] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% endif
% for r in range(max(1, columns // G)):
    ${E} column_${r} = 0;
    if (${f"lid < {columns}u" if columns < G else "true"}) {
        for (uint row = 0; row < ${shared_by if shared_by > 1 else rows}u; ++row)
            column_${r} += all[row * ${columns}u + lid + ${r * G}u];
    }
% endfor
</%def>

## Declare `output` and `q`, the output and the vector of a result, and `exists`: whether y has that element.
<%def name="result(column)">\
        const uint column = ${column};
        const int q = column / ${W * V}u;
        const long output = first_output + column % ${W * V}u;
        const bool exists = output < m && q < ${"vectors" if Q > 2 else Q};
</%def>

## Store `sum`, the value of a result, as an element of y, by the OpenCL function put that _put defines.
<%def name="store(sum)">\
put(y + output * y_step${" + q * y_pitch" if Q > 1 else ""},
                ${sum}, alpha, beta, reads_y${put.at(finish, "output", "q")});
</%def>

## The address in `partial` of real p of the sum for `output` and q, of a part.
<%def name="place(part, p)"><% number = fix_up.module.words(real) %>\
words + (((${part}) * ${Q}L + q) * m + output) * ${P * number} + ${p * number}</%def>

## Add the sums s0, s1 ... of the K work-items of each output, a few vectors at a time, and store them: in y, or with
## `split` in `partial`.
<%def name="of_block()">
% if split:
    volatile __global uint *words = (volatile __global uint *)partial;
% endif
% for first in range(0, Q, together):
% if first:
    barrier(CLK_LOCAL_MEM_FENCE);  // others may still read the sums of the previous vectors
% endif
% for q in range(first, first + together):
% if elem.complex:
    s${q} = ${(f"{gemv.module.signs(real, C)} * s{q} + {gemv.module.swapped(f't{q}', C)}"
        if conj
        else f"s{q} - {gemv.module.signs(real, C)} * {gemv.module.swapped(f't{q}', C)}")};
% endif
    sums[(k * ${together}u + ${q - first}u) * ${W}u + lid % ${W}u] = s${q};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    {
<% columns = W * V * together; is_summed = f"exists && lid < {columns}u" if columns < G else "exists" %>\
${add_rows(G // W, columns)}\
% for r in range(max(1, columns // G)):
        {
${result(f"lid + {first * W * V + r * G}u")}\
% if split:
        if (${is_summed}) {
% for p in range(P):
            ${fix_up.publish(real, capture(place, "part", p), gemv.module.lane(f"column_{r}", p, P))}
% endfor
        }
% else:
        if (${is_summed}) ${store(f"column_{r}")}
% endif
        }
% endfor
    }
% endfor
</%def>
