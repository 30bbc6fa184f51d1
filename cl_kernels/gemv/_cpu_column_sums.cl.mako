## A C function of cpu_columns: it adds rows of A, multiplied by elements of x, to the sums of a panel of W * unroll
## outputs.  These sums are in registers, as `unroll` vectors of W, while R rows at a time are added, and then single
## rows.
##
## elem, real, P, E, R: as in cpu_columns.  s<u>, t<u>: the sums of the u-th vector of outputs; t only if elements are
## complex (see _gemv).

## Add the products of `rows` rows from i on.  Rows are read in the order of memory.  The products of several rows are
## added in p and q first, and then to s and t, because one chain of additions to s would take longer.
<%def name="add_rows(W, unroll, rows)">
<%
    T = vector(real, W * P)
    sums = [("s", "p", ".x"), ("t", "q", ".y")] if elem.complex else [("s", "p", "")]
%>
% for k in range(rows):
        const ${E} x${k} = load_one(x + (i + ${k}) * x_step);
        __global const ${elem.name}_t *a${k} = a + (i + ${k}) * a_sum;
% for u in range(unroll):
        const ${T} v${k}_${u} = load${W}(a${k}${f" + {u * W}" if u else ""});
% for s, p, part in sums:
<% product = f"v{k}_{u} * x{k}{part}" %>\
% if rows == 1:
        ${s}${u} += ${product};
% elif k == 0:
        ${T} ${p}${u} = ${product};
% else:
        ${p}${u} += ${product};
% endif
% endfor
% endfor
% endfor
% if rows > 1:
% for u in range(unroll):
% for s, p, part in sums:
        ${s}${u} += ${p}${u};
% endfor
% endfor
% endif
</%def>

## panel_<W>_<unroll>(...): the function for one size of panel.
<%def name="panel(W, unroll)">
<% T = vector(real, W * P) %>
// s[0 .. ${W * unroll}) (and t) += the rows [i, last) of a, weighted by x.
static inline void panel_${W}_${unroll}(__global const ${elem.name}_t *a, long a_sum,
    __global const ${elem.name}_t *x, long x_step, long i, long last, ${real} *s, ${real} *t)
{
% for u in range(unroll):
    ${T} s${u} = *(sums_${W} *)(s + ${u * W * P});
% if elem.complex:
    ${T} t${u} = *(sums_${W} *)(t + ${u * W * P});
% endif
% endfor
    for (; i + ${R} <= last; i += ${R}) {
${add_rows(W, unroll, R)}\
    }
% if R > 1:
    for (; i < last; ++i) {
${add_rows(W, unroll, 1)}\
    }
% endif
% for u in range(unroll):
    *(sums_${W} *)(s + ${u * W * P}) = s${u};
% if elem.complex:
    *(sums_${W} *)(t + ${u * W * P}) = t${u};
% endif
% endfor
}
</%def>
