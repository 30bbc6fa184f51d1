## The end of the loop of axpy_columns: a group adds the sums that its work-items hold, in local memory, and stores the
## results of its block of outputs.
##
##   element_sums[row * columns + column]    sums in local memory, by rows; the sum of a column is a result.  columns
##                                   is a power of two, and rows the number of work-items that share an output
##   results of a block              vector 0: its W * V outputs | vector 1 | ...    result r belongs to output
##                                   first_output + r % (W * V) of vector r / (W * V)
##   partial, in words of 32 bits    part 0: vector 0: the reals of all outputs | vector 1 | ... || part 1 ...
##
## elem, real, P, C, E, G, W, V, Q, conj, finish, split, vectors_at_once: as in axpy_columns.  In scope, from there: k,
## lid, s<q> and t<q>; vector_sums and element_sums, one local array as vectors of C reals and as elements;
## first_output, part, m, partial, y and its strides, vectors, alpha, beta, reads_y.
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%!
FEW_ROWS = 32  # with up to 32 rows, sharing a column costs as much (two barriers) as it saves

def sharers(rows, columns, G):
    """How many work-items share a column: a power of two near the square root of the rows, if G permits it."""
    count = 1
    while rows > FEW_ROWS and count * count < rows and 2 * count * columns <= G:
        count *= 2
    return count
%>

## Add the rows of element_sums; the caller has issued a barrier.  `column_<r>` of work-item i is then the sum of
## column i + r * G, if that column exists.
<%def name="add_rows(rows, columns)">\
<%
shared_by = sharers(rows, columns, G)
items = shared_by * columns  # the work-items that share columns
# Where columns are shared, each of these work-items leaves one row of sums.
remaining_rows = shared_by if shared_by > 1 else rows
%>\
% if shared_by > 1:
    {
        // Work-item s * ${columns} + column adds the rows s, s + ${shared_by} ... of its column.
        ${E} sum = 0;
        if (lid < ${items}u) {
            for (uint row = 0; row < ${rows}u; row += ${shared_by}u) sum += element_sums[row * ${columns}u + lid];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < ${items}u) element_sums[lid] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% endif
% for r in range(max(1, columns // G)):
    ${E} column_${r} = 0;
    if (${f"lid < {columns}u" if columns < G else "true"}) {
        for (uint row = 0; row < ${remaining_rows}u; ++row)
            column_${r} += element_sums[row * ${columns}u + lid + ${r * G}u];
    }
% endfor
</%def>

## Declare `output` and `q`, the output and the vector of the result with a number, and `exists`: whether y has that
## element.
<%def name="result(number)">\
        const uint column = ${number};
        const int q = column / ${W * V}u;
        const long output = first_output + column % ${W * V}u;
        const bool exists = output < m && q < ${"vectors" if Q > 2 else Q};
</%def>

## Store `sum`, the value of a result, as an element of y, by the OpenCL function put that _put defines.
<%def name="store(sum)">\
put(y + output * y_step${" + q * y_pitch" if Q > 1 else ""},
                ${sum}, alpha, beta, reads_y${put.at(finish, "output", "q")});
</%def>

## The address in `partial` of real p of a part's sum for `output` and vector q.
<%def name="place(part, p)"><% real_words = fix_up.module.words(real) %>\
words + (((${part}) * ${Q}L + q) * m + output) * ${P * real_words} + ${p * real_words}</%def>

## Add the sums s0, s1 ... of the K work-items of each output, `vectors_at_once` vectors at a time, and store the
## results: in y, or with `split` in `partial`.
<%def name="add_block()">
% if split:
    volatile __global uint *words = (volatile __global uint *)partial;
% endif
% for first in range(0, Q, vectors_at_once):
% if first:
    barrier(CLK_LOCAL_MEM_FENCE);  // other work-items may still read the sums of the previous vectors
% endif
% for q in range(first, first + vectors_at_once):
% if elem.complex:
<% signs, swapped_t = gemv.module.signs(real, C), gemv.module.swapped(f"t{q}", C) %>\
    s${q} = ${f"{signs} * s{q} + {swapped_t}" if conj else f"s{q} - {signs} * {swapped_t}"};
% endif
    vector_sums[(k * ${vectors_at_once}u + ${q - first}u) * ${W}u + lid % ${W}u] = s${q};
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    {
<%
columns = W * V * vectors_at_once
holds_result = f"exists && lid < {columns}u" if columns < G else "exists"
%>\
${add_rows(G // W, columns)}\
% for r in range(max(1, columns // G)):
        {
${result(f"lid + {first * W * V + r * G}u")}\
% if split:
        if (${holds_result}) {
% for p in range(P):
            ${fix_up.publish(real, capture(place, "part", p), gemv.module.lane(f"column_{r}", p, P))}
% endfor
        }
% else:
        if (${holds_result}) ${store(f"column_{r}")}
% endif
        }
% endfor
    }
% endfor
</%def>
