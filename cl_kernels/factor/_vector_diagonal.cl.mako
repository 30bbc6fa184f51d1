## x = D^-1 v of 64 elements, with D in local memory, for vector and fronts/vector.  Rows of D, and elements of v, are
## multiplied by `inverse`, the reciprocals of D's diagonal elements, so that the diagonal becomes ones.  D is packed:
## row i begins at i (i + 1) / 2 of `triangle`.  In scope: t, and what _vector declares.

## Load D, whose first element is at `l`, by rows up to the diagonal; from row `rows` on it is extended by the unit
## matrix.  along: see _vector.  unit: whether the diagonal of D is assumed to be ones.
<%def name="load_diagonal(e, along, l, l_row, l_col, rows, conj, unit)">\
if (t < 64) {
% if unit:
        inverse[t] = AS_VALUE(1);
% else:
        inverse[t] = t < ${rows} ? reciprocal(${conj}(${e.name}_load(${l} + t * (${l_row} + ${l_col})))) : AS_VALUE(1);
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int outer = t / 64; outer < 64; outer += 4) {
        const int row = ${"outer" if along else "t % 64"}, col = ${"t % 64" if along else "outer"};
        if (col < row) {
            const value_t d = row < ${rows} ? ${conj}(${e.name}_load(${l} + row * ${l_row} + col * ${l_col}))
                : (value_t)(0);
            triangle[row * (row + 1) / 2 + col] = MUL(d, inverse[row]);
        }
    }
</%def>

## Work-items t < 32 compute rows t and t + 32 of D^-1 v as x_half0 and x_half1, in steps of eight rows.  In each step
## every lane of a sub-group solves for the eight rows, and subtracts their products from its two rows.  A step loads
## all operands before it computes, so that the loads are in flight together.
<%def name="substitute()">\
if (t < 64) shared_x[t] = MUL(v_t, inverse[t]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < 32) {
            x_half0 = shared_x[t];
            x_half1 = shared_x[t + 32];
        }
% for q in range(0, 64, 8):
        if (t < 32) {
            const value_t ${", ".join(f"d{i}_{k} = triangle[{(q + i) * (q + i + 1) // 2 + q + k}]"
                for i in range(1, 8) for k in range(i))};
            value_t ${", ".join(f"x{i} = shared_x[{q + i}]" for i in range(8))};
% for k in range(8):
% for i in range(k + 1, 8):
            SUBTRACT(x${i}, d${i}_${k}, x${k});
% endfor
% endfor
% for h, first in enumerate((0, 32)):
% if first + 32 > q:
            if (t >= ${q - first}) {
                __local const value_t *d = triangle + (t + ${first}) * (t + ${first + 1}) / 2 + ${q};
% for k in range(8):
                ${f"if (t > {q - first + k}) " if first <= q + k else ""}SUBTRACT(x_half${h}, d[${k}], x${k});
% endfor
% if q < 56:
                if (t >= ${q + 8 - first} && t < ${q + 16 - first}) shared_x[t + ${first}] = x_half${h};
% endif
            }
% endif
% endfor
        }
% if q < 56:
        SUBGROUP_SYNC();
% endif
% endfor
</%def>
