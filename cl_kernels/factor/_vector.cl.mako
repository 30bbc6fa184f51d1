## What a group of 256 does with 64 elements of X = L^-1 b: see vector and fronts/vector.
##
##          k ->                      along    L's neighbours along k are neighbours in memory: work-item t
##      +----+                                 has rows t / 8 and t / 8 + 32, and every eighth k from t % 8
##      | D  |                        across   otherwise: row t % 64, and every fourth k from t / 64
##      +----+----+
##   64 |    | D  |                   v = b - sum over k of L(., k) x(k);   x = D^-1 v
##      +----+----+
## A tile of 64 x 64 elements of L is in registers, l0 to l15, before the x is there that it waits for.

## Local memory, and sums.
<%def name="declare(along)">\
__local value_t triangle[${64 * 65 // 2}], below[${64 * (9 if along else 4)}], xs[128], shown[64];
    value_t ${", ".join(f"l{j} = (value_t)(0)" for j in range(16))}, sum0 = (value_t)(0)${", sum1 = (value_t)(0)" if along else ""};
</%def>

## The row and the k of a work-item's j-th element.
<%!
def row(along, j):
    return f"(t / 8 + {j // 8 * 32})" if along else "t % 64"

def step(along, j):
    return f"(t % 8 + {j % 8 * 8})" if along else f"(t / 64 + {4 * j})"
%>

## Bring the tile at pointer `l`: `rows` rows and `steps` k are there, the others are 0.
<%def name="fetch(e, along, l, l_row, l_col, rows, steps)">\
{
            __global const ${e.name}_t *tile = ${l};
% for j in range(16):
            l${j} = ${row(along, j)} < ${rows} && ${step(along, j)} < ${steps} ? ${e.name}_load(tile + ${row(along, j)} * ${l_row} + ${step(along, j)} * ${l_col}) : (value_t)(0);
% endfor
        }
</%def>

## Add its products; x(k) is in xs from `at` on.  given: CONJ, or nothing.
<%def name="multiply(along, at, given)">\
% for j in range(16):
        MAD(${"sum1" if along and j >= 8 else "sum0"}, ${given}(l${j}), xs[${at} + ${step(along, j)}]);
% endfor
</%def>

## v, of which work-item t < 64 has element t in `own`, less the sums.
<%def name="subtract(along)">\
% if along:
    below[t / 8 * 9 + t % 8] = sum0;
    below[(t / 8 + 32) * 9 + t % 8] = sum1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < 64)
        for (int j = 0; j < 8; ++j) own -= below[t * 9 + j];
% else:
    below[t] = sum0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < 64)
        for (int j = 0; j < 4; ++j) own -= below[64 * j + t];
% endif
</%def>

## Bring D, whose first element is at `l`, by rows without what is above the diagonal, which has
## reciprocals; beyond `rows` it goes on as the unit matrix.
<%def name="diagonal(e, along, l, l_row, l_col, rows, given, unit)">\
{
        const int fast = t % 64;
        for (int slow = t / 64; slow < 64; slow += 4) {
            const int row = ${"slow" if along else "fast"}, col = ${"fast" if along else "slow"};
            if (col > row) continue;
            value_t d = AS_VALUE(row == col);
            if (row < ${rows}${" && col < row" if unit else ""}) d = ${given}(${e.name}_load(${l} + row * ${l_row} + col * ${l_col}));
            triangle[row * (row + 1) / 2 + col] = row == col ? reciprocal(d) : d;
        }
    }
</%def>

## own = D^-1 own of work-items t < 64, eight at a time: all that come behind solve for the eight.
<%def name="substitute()">\
{
        if (t < 8) shown[t] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int q = 0; q < 64; q += 8) {
            if (t >= q && t < 64) {
% for i in range(8):
                value_t x${i} = shown[q + ${i}];
% endfor
% for i in range(8):
                {
                    __local const value_t *d = triangle + (q + ${i}) * (q + ${i + 1}) / 2 + q;
% for k in range(i):
                    SUBTRACT(x${i}, d[${k}], x${k});
% endfor
                    x${i} = MUL(x${i}, d[${i}]);
                }
% endfor
                if (t < q + 8) {
% for i in range(8):
                    if (t == q + ${i}) own = x${i};
% endfor
                } else {
                    __local const value_t *d = triangle + t * (t + 1) / 2 + q;
% for i in range(8):
                    SUBTRACT(own, d[${i}], x${i});
% endfor
                    if (t < q + 16) shown[t] = own;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
</%def>

## Wait for mark `k`, and see how far those behind it are there, up to `end`: `have`.
<%def name="wait(k, end)">\
if (${k} >= have) {
            if (t == 0) {
                int seen = ${k};
                while (!LOAD_PUBLISHED(done + seen)) {}
                while (++seen < ${end} && LOAD_PUBLISHED(done + seen)) {}
                until = seen;
                DEVICE_FENCE();
            }
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            have = until;
            GROUP_FENCE();
        }
</%def>

## Mark `k` is there; the last group of all, of `groups`, leaves the counters at 0.
<%def name="tell(mark)">\
GROUP_FENCE();
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (t == 0) {
        DEVICE_FENCE();
        ${mark}
        DEVICE_FENCE();
        number = atomic_inc(ready + 1) == groups - 1u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (number)
        for (uint i = t; i < 2u + groups; i += 256u) STORE_PUBLISHED(ready + i, 0u);
</%def>
