## R = B - A X for a sparse A, both triangles of which are in CSR rows; or (sums) r[i] = sum over k of |A(i, k)|, with
## |re| + |im| for a complex number.
##
## a, e            Elements of the matrix, and of X
## start, column   the rows, as in CSR           source   for each element, the index k of its value; ~k: its conjugate
## b, x            any strides                   r        n x count, row-major; if `sums`, count is 1
## size            work-items of a group, each for `run` adjacent elements of r
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
% for elem in dict.fromkeys((a, e)):
${element.scalar(elem)}
% endfor
${epilogue.values(e)}

__kernel ${group.of_size(size)}
void ${kernel("residual")}
{
    const long from = get_global_id(0) * run, end = from + run < n * count ? from + run : n * count;
    for (long at = from; at < end; at++) {
        const long row = at / count, begin = start[row], last = start[row + 1];
% if sums:
        real_t sum = 0;
        for (long k = begin; k < last; k++) {
            const ${a.value} v = values[values_offset + (source[k] < 0 ? ~source[k] : source[k])];
            sum += ${"ABS(v.x) + ABS(v.y)" if a.complex else "ABS(v)"};
        }
        r[r_offset + at] = sum;
% else:
        const long col = at % count;
        value_t sum = b[b_offset + row * b_row + col * b_col];
        for (long k = begin; k < last; k++) {
            const long signed_index = source[k];
            ${a.value} v = values[values_offset + (signed_index < 0 ? ~signed_index : signed_index)];
% if a.complex:
            if (signed_index < 0) v.y = -v.y;
% endif
            const value_t factor = x[x_offset + column[k] * x_row + col * x_col];
            sum -= ${"MUL((value_t)(v.x, v.y), factor)" if a.complex else "(real_t)v * factor"};
        }
        r[r_offset + at] = sum;
% endif
    }
}
