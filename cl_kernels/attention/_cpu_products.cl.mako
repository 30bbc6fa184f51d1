## Parts of cpu_forward and cpu_backward.  `products`: c[i] (+)= sum over k of a[i, k] * b[k] for TR rows i; rows of b
## and c have BQ numbers, NV vectors of V, one after another: one number for each of the work-item's BQ own rows.
##
##             b: BQ columns
##            +------+------+
##   a: TR    | c0_0 | c0_1 |     c{i}_{j}: vector j of row i, in a register.  a is read where it is stored, in any
##   rows     | ...  |      |     order of its axes: in the memory of the device, or in a tile of converted numbers.
##
## define(space): the function `products`; space: the address space of a.  a_row, a_step: strides of a along i and k, in
## elements.  rows: how many rows of a exist; the others repeat the last one.  steps: the extent of k.  adds: add to c,
## or overwrite it.
<%def name="define(space)"><%
    T = vector(real, V)
    sums = [(i, j) for i in range(TR) for j in range(NV)]
%>
static inline void products(
    ${space}const ${real} *a, const long a_row, const long a_step, const int rows, const ${real} *b,
    const int steps, ${real} *c, const int adds)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
% for i in range(TR):
    ${space}const ${real} *a${i} = a + (${i} < rows ? ${i} : rows - 1) * a_row;
% endfor
    ${T} ${", ".join(f"c{i}_{j} = 0" for i, j in sums)};
    if (adds) {
% for i, j in sums:
        c${i}_${j} = *(const ${T} *)(c + ${i * NV * V + j * V});
% endfor
    }
    long a_at = 0;
    for (int k = 0; k < steps; k++) {
% for j in range(NV):
        const ${T} b${j} = *(const ${T} *)(b + ${j * V});
% endfor
% for i in range(TR):
        { const ${T} a_ik = a${i}[a_at]; ${" ".join(f"c{i}_{j} += a_ik * b{j};" for j in range(NV))} }
% endfor
        b += ${NV * V};
        a_at += a_step;
    }
% for i, j in sums:
    *(${T} *)(c + ${i * NV * V + j * V}) = c${i}_${j};
% endfor
}
</%def>

## Load rows [first, first + BQ) of an array, times `factor`, and transpose them: to[d * BQ + l] = element d of row
## first + l.  Rows beyond the last one repeat it.  row0: the address of row 0; rows: how many exist; extent: elements
## of a row.  In scope at the caller: first; NAME_row, NAME_step, the array's strides between rows and along a row.
<%def name="transposed(to, name, row0, rows, extent, factor='')">\
    for (uint l = 0; l < ${BQ}u; l++) {
        __global const ${elem.name}_t *row = ${row0} + min(first + l, ${rows} - 1) * ${name}_row;
        ${no_vectorize()}\
        for (uint d = 0; d < ${extent}; d++) ${to}[d * ${BQ}u + l] = ${factor}${elem.name}_load(row + d * ${name}_step);
    }
</%def>

## The pragma for loops along a row whose elements may be apart in memory: clang's vectors would be gathered and
## scattered element by element there, which takes several times as long as a loop of single elements.
<%def name="no_vectorize()">#pragma clang loop vectorize(disable)
</%def>
