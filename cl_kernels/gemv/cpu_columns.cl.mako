## cpu_columns: y = alpha * A x + beta * y on a CPU, where A is contiguous along the outputs
## (a transposed row-major matrix).
##
##   outputs ->  | U*V | U*V | ... | V | V/2 .. 1 |      The sums of a block of outputs are in the L1 cache.
##   summed i    a a a a                                 R rows of A at a time are added to U vectors of
##     |         a a a a  R rows share one load and      sums, which are in registers meanwhile.
##     v         ...      store of the sums
## Short rows are read one by one (R = 1), in the order of memory.  The outputs of a block are divided into panels: of
## U * V outputs, and for the rest at most one panel of each size U / 2 * V ... V, V / 2 ... 1.
##
## A group is one work-item.  Group g has block g / parts of the outputs and part g % parts of the summed axis; the last
## group of a block to finish adds the parts in order.
##
## V: elements of a vector.  U: most vectors of sums in registers.  R: as above.  B: most outputs of a block.  widths:
## V, V / 2 ... 1, the widths of vectors.  elem, real: element, and the real type of the sums.  P: reals of an element.
## C = V * P; E: type of P reals.  conj: conjugate A.  unit: a_out == 1 (else V == U == 1).  y_unit: y_step == 1.
## finish: see _put.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%namespace name="sums" file="/gemv/_cpu_column_sums.cl.mako"/>
<%namespace name="outputs" file="/gemv/_cpu_outputs.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(elem)}
${put.define(elem, real, finish)}
% for W in widths:
${gemv.adjacent(elem, real, W, False)}
% endfor
${fix_up.define()}
${outputs.define(elem, real, C, y_unit, finish)}

% for W in widths:
typedef ${vector(real, W * P)} sums_${W} __attribute__((aligned(${elem.itemsize // P})));
% endfor
<% panels = [(V, U >> k) for k in range(U.bit_length() - 1)] + [(W, 1) for W in widths] %>
% for W, unroll in panels:
${sums.panel(W, unroll)}
% endfor

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("gemv_cpu_columns")}
{
    // The sums s and t of a block; t only if elements are complex (see _gemv).
    ${real} s[${B * P}] __attribute__((aligned(64)));
    ${real} t[${B * P if elem.complex else 1}] __attribute__((aligned(64)));
    const uint part = get_group_id(0) % parts;
    const long first_out = get_group_id(0) / parts * block_size;
    const long first = part * part_size, last = first + part_size < n ? first + part_size : n;
    const long last_out = first_out + block_size < m ? first_out + block_size : m;
    const long width = last_out - first_out;
    // The sums of few outputs stay in registers for 512 rows, so that their loads and stores take little time.  Those
    // of many outputs are loaded and stored once in R rows.
    const long rows = width <= ${U * V} ? 512 : ${R};
    a += a_offset + first_out * a_out;
    x += x_offset;
    y += y_offset;
${put.advance_arrays(finish)}\
    for (long k = 0; k < width * ${P}; ++k) s[k] = ${"t[k] = 0" if elem.complex else "0"};
    for (long i = first; i < last; i += rows) {
        const long end = i + rows < last ? i + rows : last;
        long o = 0;  // every panel has half the outputs of the one before, so only the first one is repeated
% for k, (W, unroll) in enumerate(panels):
        ${"if" if k else "while"} (o + ${W * unroll} <= width) {
            panel_${W}_${unroll}(a + o${"" if unit else " * a_out"}, a_sum, x, x_step, i, end, s + o * ${P},
                t${f" + o * {P}" if elem.complex else ""});
            o += ${W * unroll};
        }
% endfor
    }
% if elem.complex:
    for (long k = 0; k < width; ++k) {
        const ${E} u = *((${E} *)s + k), v = *((${E} *)t + k);
        *((${E} *)s + k) = (${E})(${"u.x + v.y, v.x - u.y" if conj else "u.x - v.y, u.y + v.x"});
    }
% endif
    if (parts > 1) {
        __global ${real} *sums_at = (__global ${real} *)partial + (part * m + first_out) * ${P};
        for (long k = 0; k < width * ${P}; ++k) sums_at[k] = s[k];
        ${outputs.fold_parts(elem, real, "get_group_id(0) / parts", "first_out", "last_out", finish)}
    } else {
        store_all(y + first_out * y_step, y_step, s, width, alpha, beta, reads_y${put.at(finish, "first_out", 0)});
    }
}
