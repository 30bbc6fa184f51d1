## What a group of 256 does with 64 elements of X = L^-1 b: see vector and fronts/vector.
##
##          k ->                      along    L's neighbours along k are neighbours in memory: work-item t
##      +----+                                 has rows t / 8 and t / 8 + 32, and every eighth k from t % 8
##      | D  |                        across   otherwise: row t % 64, and every fourth k from t / 64
##      +----+----+
##   64 |    | D  |                   v = b - sum over k of L(., k) x(k);   x = D^-1 v
##      +----+----+
## A tile of 64 x 64 elements of L is in registers, l0 to l15, before the x is there that it waits for.  Rows
## of D are divided by their diagonal elements, whose reciprocals v is multiplied by.
##
## ready | next number | groups that are done | cells ...
## An element of X has cells of 64 bits: 32 of its own, and 32 that say that they are there.  So whoever waits
## for it reads it with one access, and needs no fence.
<%!
def row(along, j):
    return f"(t / 8 + {j // 8 * 32})" if along else "t % 64"

def step(along, j):
    return f"(t % 8 + {j % 8 * 8})" if along else f"(t / 64 + {4 * j})"

def sums(along):
    return range(2 if along else 1)
%>

## publish(cell, v), and is_taken(cell, &v): whether it was there.
<%def name="cells(e)">
<% words = e.itemsize // 4 %>\
#if defined(__NV_CL_C_VERSION) || defined(__NVPTX__)
#define LOAD_CELL(p) (*(p))
#define STORE_CELL(p, v) (*(p) = (v))
#else
#ifdef cl_khr_int64_base_atomics
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif
#define LOAD_CELL(p) atom_add(p, 0ul)
#define STORE_CELL(p, v) atom_xchg(p, v)
#endif
static inline void publish(volatile __global ulong *cell, value_t v)
{
    const uint${words if words > 1 else ""} bits = as_uint${words if words > 1 else ""}(v);
% for w in range(words):
    STORE_CELL(cell + ${w}, 1ul << 32 | bits${f".s{w}" if words > 1 else ""});
% endfor
}
static inline bool is_taken(volatile __global ulong *cell, value_t *v)
{
    const ulong ${", ".join(f"w{w} = LOAD_CELL(cell + {w})" for w in range(words))};
    *v = as_${e.value}((uint${words if words > 1 else ""})(${", ".join(f"(uint)w{w}" for w in range(words))}));
    return (${" & ".join(f"w{w}" for w in range(words))}) >> 32;
}
</%def>

## Local memory, and sums.
<%def name="declare(along)">\
__local value_t triangle[${64 * 65 // 2}], inverse[64], below[${64 * (9 if along else 4)}], xs[128], shown[64];
    value_t own = (value_t)(0), own0 = (value_t)(0), own1 = (value_t)(0);
    value_t ${", ".join(f"l{j} = (value_t)(0)" for j in range(16))}, ${", ".join(f"sum{i} = (value_t)(0)" for i in sums(along))};
</%def>

## Bring the tile at pointer `l`, of which `rows` rows and `steps` k are there: instead of other rows the last
## one, of which nothing is kept, and zeros where there is no k.
<%def name="fetch(e, along, l, l_row, l_col, rows, steps)">\
{
            const int steps_here = ${steps}, last_row = ${rows} - 1;
            __global const ${e.name}_t *tile = ${l};
% for i in sums(along):
            __global const ${e.name}_t *from${i} = tile + min(${row(along, 8 * i)}, last_row) * ${l_row} + ${step(along, 0)} * ${l_col};
% endfor
            const long ahead = ${8 if along else 4} * ${l_col};
            if (steps_here >= 64) {
% for j in range(16):
                l${j} = ${e.name}_load(from${j // 8 if along else 0});
                from${j // 8 if along else 0} += ahead;
% endfor
            } else {
% for j in range(16):
                l${j} = ${step(along, j)} < steps_here ? ${e.name}_load(from${j // 8 if along else 0}) : (value_t)(0);
                from${j // 8 if along else 0} += ahead;
% endfor
            }
        }
</%def>

## Add its products; x(k) is in `x`.  given: CONJ, or nothing.
<%def name="multiply(along, x, given)">\
% for j in range(16):
        MAD(sum${j // 8 if along else 0}, ${given}(l${j}), (${x})[${step(along, j)}]);
% endfor
</%def>

## own, element t of v that work-item t < 64 has, less the sums.
<%def name="subtract(along)">\
% if along:
    below[t / 8 * 9 + t % 8] = sum0;
    below[(t / 8 + 32) * 9 + t % 8] = sum1;
% else:
    below[t] = sum0;
% endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < 64)
        for (int j = 0; j < ${8 if along else 4}; ++j) own -= below[${"t * 9 + j" if along else "64 * j + t"}];
</%def>

## Bring D, whose first element is at `l`, by rows without what is above the diagonal; from row `rows` on it
## goes on as the unit matrix.
<%def name="diagonal(e, along, l, l_row, l_col, rows, given, unit)">\
if (t < 64) {
% if unit:
        inverse[t] = AS_VALUE(1);
% else:
        inverse[t] = t < ${rows} ? reciprocal(${given}(${e.name}_load(${l} + t * (${l_row} + ${l_col})))) : AS_VALUE(1);
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int slow = t / 64; slow < 64; slow += 4) {
        const int row = ${"slow" if along else "t % 64"}, col = ${"t % 64" if along else "slow"};
        if (col < row) {
            const value_t d = row < ${rows} ? ${given}(${e.name}_load(${l} + row * ${l_row} + col * ${l_col})) : (value_t)(0);
            triangle[row * (row + 1) / 2 + col] = MUL(d, inverse[row]);
        }
    }
</%def>

## Work-items t < 32 get rows t and t + 32 of D^-1 v as own0 and own1, eight rows at a time: all of one
## sub-group solve for the eight, and subtract from their own rows what these give.  What they read is read
## before they compute.
<%def name="substitute()">\
if (t < 64) shown[t] = MUL(own, inverse[t]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < 32) {
            own0 = shown[t];
            own1 = shown[t + 32];
        }
% for q in range(0, 64, 8):
        if (t < 32) {
            const value_t ${", ".join(f"d{i}_{k} = triangle[{(q + i) * (q + i + 1) // 2 + q + k}]" for i in range(1, 8) for k in range(i))};
            value_t ${", ".join(f"x{i} = shown[{q + i}]" for i in range(8))};
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
                ${f"if (t > {q - first + k}) " if first <= q + k else ""}SUBTRACT(own${h}, d[${k}], x${k});
% endfor
% if q < 56:
                if (t >= ${q + 8 - first} && t < ${q + 16 - first}) shown[t + ${first}] = own${h};
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

## Subtract what known blocks give: tiles 0 to `steps` of columns.  tile(k): where tile k begins, with its
## strides, rows and k; there(k): whether work-item t has an x in it; cell(k): that x's cell.
<%def name="known(e, along, given, tile, there, cell)">\
{
        value_t x_next = (value_t)(0);
        bool is_there = false;
        if (steps > 0) ${fetch(e, along, *tile("0"))}
        for (int k = 0; k < steps; ++k) {
            if (t < 64) {
                if (${there("k")})
                    while (!is_there) is_there = is_taken(${cell("k")}, &x_next);
                xs[(k & 1) * 64 + t] = x_next;
                x_next = (value_t)(0);
                is_there = k + 1 < steps && ${there("(k + 1)")} && is_taken(${cell("(k + 1)")}, &x_next);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            ${multiply(along, "xs + (k & 1) * 64", given)}
            if (k + 1 < steps) ${fetch(e, along, *tile("(k + 1)"))}
        }
    }
</%def>

## The group is done.  The last of all, of `groups`, leaves `ready` at 0, with its `cells` cells.
<%def name="tell()">\
GROUP_FENCE();
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (t == 0) {
        DEVICE_FENCE();
        number = atomic_inc(ready + 1) == groups - 1u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (number) {
        for (long i = t; i < cells; i += 256) STORE_CELL((volatile __global ulong *)ready + 1 + i, 0ul);
        if (t < 2) STORE_PUBLISHED(ready + t, 0u);
    }
</%def>
