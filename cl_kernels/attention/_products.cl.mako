## The two products of a tile of keys on the matrix units of NVIDIA's warps (PTX ISA: mma.sync m16n8k16, ldmatrix).
## With g = lane / 4 and c = lane % 4, a lane has of a block of 16 rows
##   sums   rows g and g + 8, columns 2c and 2c + 1
##   A      the same rows, columns 2c, 2c + 1, 2c + 8 and 2c + 9: two adjacent tiles of sums are one A
## Tiles in local memory are as in _copies.  Names as in mma.
<%namespace name="copies" file="/attention/_copies.cl.mako"/>

<%def name="define(kind)">
#define MMA(d, a, b0, b1) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.${kind}.${kind}.f32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d##_0), "+f"(d##_1), "+f"(d##_2), "+f"(d##_3) \
                 : "r"(a##_0), "r"(a##_1), "r"(a##_2), "r"(a##_3), "r"(b0), "r"(b1))
#define LOAD_MATRICES(way, x, from) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" way ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(x##_0), "=r"(x##_1), "=r"(x##_2), "=r"(x##_3) : "r"(from) : "memory")
</%def>

## What a lane reads of matrices: rows of A and of v, and of k.  A step along a row changes the swizzled bits alone.
<%def name="places(B)"><% swizzle = copies.module.swizzle %>\
    const uint row = lane % 16u, key = lane / 16u * 8u + lane % 8u;
    const uint q_at = q_base + (t / 32u * ${16 * B}u + row) * ${2 * DQ}u, k_at = k_base + key * ${2 * DQ}u;
    const uint v_at = v_base + row * ${2 * DV}u;
    uint q_turn = (lane / 16u ^ ${swizzle(DQ, "row")}) << 4, k_turn = (lane / 8u % 2u ^ ${swizzle(DQ, "key")}) << 4;
    uint v_turn = (lane / 16u ^ ${swizzle(DV, "row")}) << 4;
</%def>

## Load the step s along the rows of q.
<%def name="queries(B, s)">\
% for i in range(B):
            uint ${", ".join(f"q{i}_{s}_{r}" for r in range(4))};
            LOAD_MATRICES("", q${i}_${s}, q_at + ${32 * DQ * i}u + (q_turn ^ ${32 * s}u));
% endfor
</%def>

## s += q k'
<%def name="scores(B, TK)">\
            uint ${", ".join(f"y_{r}" for r in range(4))};
            COMPUTE_AGAIN("+r", q_turn);
            COMPUTE_AGAIN("+r", k_turn);
% for s in range(DQ // 16):
${'' if keeps_q else queries(B, s)}\
% for j in range(0, TK // 8, 2):
            LOAD_MATRICES("", y, k_at + ${16 * DQ * j}u + (k_turn ^ ${32 * s}u));
% for i in range(B):
            MMA(s${i}_${j}, q${i}_${s}, y_0, y_1);
            MMA(s${i}_${j + 1}, q${i}_${s}, y_2, y_3);
% endfor
% endfor
% endfor
</%def>

## o += p v
<%def name="results(B, TK)">\
            uint ${", ".join(f"y_{r}" for r in range(4))};
            COMPUTE_AGAIN("+r", v_turn);
% for j in range(0, TK // 8, 2):
% for n in range(0, DV // 8, 2):
            LOAD_MATRICES(".trans", y, v_at + ${16 * DV * j}u + (v_turn ^ ${16 * n}u));
% for i in range(B):
            MMA(o${i}_${n}, p${i}_${j}, y_0, y_1);
            MMA(o${i}_${n + 1}, p${i}_${j}, y_2, y_3);
% endfor
% endfor
% endfor
</%def>
