## Parts of mma and mma_backward: the products s += q k' and o += p v of a tile of keys on the matrix units of NVIDIA's
## warps (PTX ISA: mma.sync m16n8k16, ldmatrix).  An instruction adds the product of A (16 x 16) and B (16 x 8) to 16 x
## 8 sums.  With g = lane / 4 and c = lane % 4, a lane has, in four registers r each,
##   sums   x{i}_{j}_{r}: of block i of 16 rows and block j of 8 columns, rows g (r < 2) and g + 8, columns 2c + r % 2
##   A      x{i}_{s}_{r}: the same rows, columns 2c and 2c + 1 (r < 2), 2c + 8 and 2c + 9, so that two adjacent
##          blocks of sums are one A
## Tiles in local memory are as in _copies: rows of 2 D bytes, chunks of 16 bytes swizzled.  B: blocks of 16 rows of a
## warp; TK: keys of a tile; t: the local id; lane: t % 32.
<%namespace name="copies" file="/attention/_copies.cl.mako"/>

<%def name="define(kind)">
#define MMA(d, a, b0, b1) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.${kind}.${kind}.f32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d##_0), "+f"(d##_1), "+f"(d##_2), "+f"(d##_3) \
                 : "r"(a##_0), "r"(a##_1), "r"(a##_2), "r"(a##_3), "r"(b0), "r"(b1))
#define LOAD_MATRICES(layout, x, from) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" layout ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(x##_0), "=r"(x##_1), "=r"(x##_2), "=r"(x##_3) : "r"(from) : "memory")
</%def>

## The addresses from which a lane loads matrices.  One load takes four 8 x 8 matrices; each lane gives the address of
## 16 bytes, one row of a matrix: in tile row `row` for A and v, in tile row `key` for k.  NAME_column is the
## lane's offset in bytes within a row at step 0, swizzled.  Step s (16 columns) is at NAME_at + (NAME_column ^ 32 s),
## as the swizzle is an exclusive or.  HIDE_VALUE (_values) hides NAME_column from the compiler, which would keep the
## offsets of all steps in registers.  Of an array NAME with rows of D elements:
##   rows(name, D, B), column_of_rows(D)   operand A: the warp's own rows
##   keys(name, D), column_of_keys(D)      operand B of the product with a transpose, such as k
##   values(name, D), column_of_rows(D)    operand B of the product without one, such as v
<%!
def rows(name, D, B):
    return f"{name}_base + (t / 32u * {16 * B}u + row) * {2 * D}u"

def keys(name, D):
    return f"{name}_base + key * {2 * D}u"

def values(name, D):
    return f"{name}_base + row * {2 * D}u"
%>
<%def name="column_of_rows(D)">(lane / 16u ^ ${copies.module.swizzle(D, "row")}) << 4</%def>
<%def name="column_of_keys(D)">(lane / 8u % 2u ^ ${copies.module.swizzle(D, "key")}) << 4</%def>
<%def name="places(B)">\
    const uint row = lane % 16u, key = lane / 16u * 8u + lane % 8u;
    const uint q_at = ${rows("q", DQ, B)}, k_at = ${keys("k", DQ)};
    const uint v_at = ${values("v", DV)};
    uint q_column = ${column_of_rows(DQ)}, k_column = ${column_of_keys(DQ)};
    uint v_column = ${column_of_rows(DV)};
</%def>

## Load operand A of step s (16 columns) of the warp's rows of an array.
<%def name="queries(B, s, name='q', D=None)"><% D = D or DQ %>\
% for i in range(B):
            uint ${", ".join(f"{name}{i}_{s}_{r}" for r in range(4))};
            LOAD_MATRICES("", ${name}${i}_${s}, ${name}_at + ${32 * D * i}u + (${name}_column ^ ${32 * s}u));
% endfor
</%def>

## s += q k', for B x TK / 8 blocks of sums.  Other arrays than q and k, with rows of D elements, are named by own and
## other.  in_registers: whether q is in registers.  ahead: C text, added to the address of k.
<%def name="scores(B, TK, sums='s', own='q', other='k', D=None, in_registers=False, ahead='')"><% D = D or DQ %>\
            uint ${", ".join(f"loaded_{r}" for r in range(4))};
            HIDE_VALUE("+r", ${own}_column);
            HIDE_VALUE("+r", ${other}_column);
% for s in range(D // 16):
${'' if in_registers else queries(B, s, own, D)}\
% for j in range(0, TK // 8, 2):
            LOAD_MATRICES("", loaded, ${other}_at${ahead} + ${16 * D * j}u + (${other}_column ^ ${32 * s}u));
% for i in range(B):
            MMA(${sums}${i}_${j}, ${own}${i}_${s}, loaded_0, loaded_1);
            MMA(${sums}${i}_${j + 1}, ${own}${i}_${s}, loaded_2, loaded_3);
% endfor
% endfor
% endfor
</%def>

## o += p v, with p in registers: its columns, and the rows of v, in steps of 16 (j counts
## 8 of them, `column` 8 columns of v).
<%def name="results(B, TK, sums='o', own='p', other='v', D=None, ahead='')"><% D = D or DV %>\
            uint ${", ".join(f"loaded_{r}" for r in range(4))};
            HIDE_VALUE("+r", ${other}_column);
% for j in range(0, TK // 8, 2):
% for column in range(0, D // 8, 2):
            LOAD_MATRICES(".trans", loaded, ${other}_at${ahead} + ${16 * D * j}u + (${other}_column ^ ${16 * column}u));
% for i in range(B):
            MMA(${sums}${i}_${column}, ${own}${i}_${j}, loaded_0, loaded_1);
            MMA(${sums}${i}_${column + 1}, ${own}${i}_${j}, loaded_2, loaded_3);
% endfor
% endfor
% endfor
</%def>
