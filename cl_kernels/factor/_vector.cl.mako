## What a group of 256 does with its rows of X = L^-1 b, `tall` times 64 of them: see vector and
## fronts/vector.
##
##          k ->                      along    L's neighbours along k are neighbours in memory: work-item t
##      +----+                                 has rows t / 8 and t / 8 + 32 of each 64, and every eighth k
##      | D0 |                                 from t % 8
##      | E D1                        across   otherwise: row t % 64, and every fourth k from t / 64
##      +----+----+
##      |    | D0 |                   v = b - sum over k of L(., k) x(k);   x0 = D0^-1 v0;
##      |    | E D1                   x1 = D1^-1 (v1 - E x0)
##      +----+----+
## A tile, 64 columns of L, is in registers before the x is there that it waits for.  Rows of D are divided
## by their diagonal elements, whose reciprocals v is multiplied by.
<%!
def row(along, j):
    return f"(t / 8 + {j // 8 * 32})" if along else "t % 64"

def step(along, j):
    return f"(t % 8 + {j % 8 * 8})" if along else f"(t / 64 + {4 * j})"

def sums(along):
    return range(2 if along else 1)
%>

## Local memory, and sums.
<%def name="declare(along, tall)">\
__local value_t triangles[${tall * 64 * 65 // 2}], inverse[${64 * tall}], below[${64 * tall * (9 if along else 4)}], xs[128], shown[${64 * tall}], solved[${64 * tall}];
    value_t ${", ".join(f"l{h}_{j} = (value_t)(0)" for h in range(tall) for j in range(16))};
    value_t ${", ".join(f"sum{h}_{i} = (value_t)(0)" for h in range(tall) for i in sums(along))};
</%def>

## Bring 64 x 64 elements from pointer `l` on to l`h`: `rows` rows and `steps` k are there, the others are 0.
<%def name="fetch(e, along, h, l, l_row, l_col, rows, steps)">\
{
            __global const ${e.name}_t *tile = ${l};
% for j in range(16):
            l${h}_${j} = ${row(along, j)} < ${rows} && ${step(along, j)} < ${steps} ? ${e.name}_load(tile + ${row(along, j)} * ${l_row} + ${step(along, j)} * ${l_col}) : (value_t)(0);
% endfor
        }
</%def>

## Add the products of l`h` to the sums of the 64 rows `to`; x(k) is in `x`.  given: CONJ, or nothing.
<%def name="multiply(along, h, to, x, given)">\
% for j in range(16):
        MAD(sum${to}_${j // 8 if along else 0}, ${given}(l${h}_${j}), (${x})[${step(along, j)}]);
% endfor
</%def>

## own, element t of v that work-item t < 64 tall has, less the sums of the 64 rows in `which`.
<%def name="subtract(along, which)">\
% for h in which:
% if along:
    below[(${64 * h} + t / 8) * 9 + t % 8] = sum${h}_0;
    below[(${64 * h + 32} + t / 8) * 9 + t % 8] = sum${h}_1;
% else:
    below[${256 * h} + t] = sum${h}_0;
% endif
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t >= ${64 * which[0]} && t < ${64 * (which[-1] + 1)}) {
% if along:
        for (int j = 0; j < 8; ++j) own -= below[t * 9 + j];
% else:
        for (int j = 0; j < 4; ++j) own -= below[t / 64 * 256 + 64 * j + t % 64];
% endif
    }
</%def>

## Bring the D of 64 rows each, whose elements begin at `l`, by rows without what is above the diagonal;
## from row `rows` on it goes on as the unit matrix.
<%def name="diagonals(e, along, tall, l, l_row, l_col, rows, given, unit)">\
if (t < ${64 * tall}) {
% if unit:
        inverse[t] = AS_VALUE(1);
% else:
        inverse[t] = t < ${rows} ? reciprocal(${given}(${e.name}_load(${l} + t * (${l_row} + ${l_col})))) : AS_VALUE(1);
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int slow = t / 64; slow < ${64 * tall}; slow += 4) {
        const int h = slow / 64 * 64, row = ${"slow" if along else "h + t % 64"}, col = ${"h + t % 64" if along else "slow"};
        if (col < row) {
            const value_t d = row < ${rows} ? ${given}(${e.name}_load(${l} + row * ${l_row} + col * ${l_col})) : (value_t)(0);
            triangles[h * 65 / 2 + (row - h) * (row - h + 1) / 2 + col - h] = MUL(d, inverse[row]);
        }
    }
</%def>

## solved = D^-1 own of the 64 rows from `h` * 64 on, eight at a time: of one sub-group all that come behind
## solve for the eight.
<%def name="substitute(h)">\
{
        if (t >= ${64 * h} && t < ${64 * h + 64}) shown[t] = MUL(own, inverse[t]);
        barrier(CLK_LOCAL_MEM_FENCE);
        __local const value_t *d0 = triangles + ${h * 64 * 65 // 2} + t * (t + 1) / 2, *d1 = d0 + 32 * t + 528;
        value_t own0 = (value_t)(0), own1 = (value_t)(0);
        if (t < 32) {
            own0 = shown[${64 * h} + t];
            own1 = shown[${64 * h + 32} + t];
        }
        for (int q = 0; q < 64; q += 8) {
            if (t < 32) {
                __local const value_t *d = triangles + ${h * 64 * 65 // 2} + q * (q + 1) / 2 + q;
% for i in range(8):
                value_t x${i} = shown[${64 * h} + q + ${i}];
% endfor
% for i in range(8):
                {
% for k in range(i):
                    SUBTRACT(x${i}, d[${k}], x${k});
% endfor
                    if (t == ${i}) solved[${64 * h} + q + ${i}] = x${i};
                    d += q + ${i + 1};
                }
% endfor
                if (t >= q + 8) {
% for i in range(8):
                    SUBTRACT(own0, d0[q + ${i}], x${i});
% endfor
                    if (t < q + 16) shown[${64 * h} + t] = own0;
                }
                if (t + 32 >= q + 8) {
% for i in range(8):
                    SUBTRACT(own1, d1[q + ${i}], x${i});
% endfor
                    if (t + 32 < q + 16) shown[${64 * h + 32} + t] = own1;
                }
            }
            SUBGROUP_SYNC();
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
</%def>

## Wait for the rows that tile `k` of columns takes, and see how far those behind are there, of `blocks`.
<%def name="wait(k, blocks, tall)">\
if (${k} >= have) {
            if (t == 0) {
                int seen = ${k} / ${tall};
                while (!LOAD_PUBLISHED(done + seen)) {}
                while (++seen < ${blocks} && LOAD_PUBLISHED(done + seen)) {}
                until = ${tall} * seen;
                DEVICE_FENCE();
            }
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            have = until;
            GROUP_FENCE();
        }
</%def>

## The rows are there: `mark` says so.  The last group of all, of `groups`, leaves the counters at 0.
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

## The sum over known tiles of columns, `steps`, then D: what both kernels do.  tile(h, k): where tile k of
## the 64 rows h begins, with its strides, rows and k; square(): the same of E; x(k): pointer to x(k), and
## how many there are.
<%def name="solve(e, along, tall, given, tile, square, x, blocks, is_own='true')">\
<%def name="next(k)">\
if (${k} < steps) {
% for h in range(tall):
            ${fetch(e, along, h, *tile(h, k))}
% endfor
        }
% if tall > 1:
        else if (${is_own}) ${fetch(e, along, 0, *square())}
% endif
</%def>\
    value_t next_x = (value_t)(0);
    bool is_next = false;
    ${next("0")}
    for (int k = 0; k < steps; ++k) {
        ${wait("k", blocks, tall)}
        if (t < 64) {
            xs[(k & 1) * 64 + t] = is_next ? next_x : ${x("k")};
            is_next = k + 1 < have && k + 1 < steps;
            if (is_next) next_x = ${x("(k + 1)")};
        }
        barrier(CLK_LOCAL_MEM_FENCE);
% for h in range(tall):
        ${multiply(along, h, h, "xs + (k & 1) * 64", given)}
% endfor
        ${next("(k + 1)")}
    }
    ${subtract(along, range(tall))}
    if (${is_own}) {
        ${substitute(0)}
% if tall > 1:
% for i in sums(along):
        sum1_${i} = (value_t)(0);
% endfor
        ${multiply(along, 0, 1, "solved", given)}
        ${subtract(along, [1])}
        ${substitute(1)}
% endif
        if (t < ${64 * tall}) own = solved[t];
    }
</%def>
