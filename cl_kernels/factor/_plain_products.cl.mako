## The products of a tile V (64 x 64, see _tile) of real numbers without a matrix instruction.  Work-item (y, x) of 16 x
## 16 sums the 4 rows from 4y on and the 4 columns from 4x on, so that it reads only 8 numbers in a step of k, as two
## vectors.  Its sums are NAME<i>_<j>.  The defs are described in _sums, and the values of elements
## that do not exist in _tile's input; _tile has the variables in scope.
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%def name="declare()">\
const int sum_row = t / 16 * 4, sum_col = t % 16 * 4;
</%def>
<%def name="sums(name)">\
value_t ${", ".join(f"{name}{i}_{j} = 0" for i in range(4) for j in range(4))};
</%def>
<%def name="input(source, name, s)">\
% for i in range(4):
% for j in range(4):
    {
        const int row = sum_row + ${i}, col = sum_col + ${j};
        ${name}${i}_${j} = ${f"{tile.module.on_diagonal(s)} ? (real_t)-1 : (real_t)0" if factorise else "0"};
        if (row < left_${s} && col < left_f${f" && {tile.module.in_triangle(s)}" if factorise else ""})
            ${name}${i}_${j} = -${source}[(${s}0 + row) * ${source}_row + (f0 + col) * ${source}_col];
    }
% endfor
% endfor
</%def>
<%def name="multiply(name, p, q)">\
#pragma unroll 4
                for (int step = 0; step < 16; ++step) {
                    const real4_t a = *(__local const real4_t *)(${p} + step * 68 + sum_row);
                    const real4_t b = *(__local const real4_t *)(${q} + step * 68 + sum_col);
% for i in range(4):
% for j in range(4):
                    ${name}${i}_${j} += a.s${i} * b.s${j};
% endfor
% endfor
                }
</%def>

## Subtract the sums from v, through local memory, as in _mma_products.
<%def name="subtract_sums(v, name, has_input)">\
<% lines = 16 * panels %>\
for (int from = 0; from < 64; from += ${2 * lines}) {
        const int row = sum_row - from;
        if (row >= 0 && row < ${2 * lines}) {
            __local value_t *to = (row < ${lines} ? p_part + row * 68 : q_part + (row - ${lines}) * 68) + sum_col;
% for i in range(4):
            *(__local real4_t *)(to + ${68 * i}) = (real4_t)(${", ".join(f"{name}{i}_{j}" for j in range(4))});
% endfor
        }
        ${matrix.subtract_local_sums(v, has_input)}
    }
</%def>
