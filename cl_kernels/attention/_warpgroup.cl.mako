## Products of attention by warpgroup matrix instructions (PTX ISA, wgmma), in which a warpgroup (128 work-items)
## multiplies asynchronously.  "//@sm_90a" marks instructions that portable_gpu.runtime.retarget puts into the PTX.
##
## A tile of rows of D elements is stored in lines of 128 bytes, which are 64 elements of a row: first the lines of
## the first 64 elements of all rows, and then those of the others.  Chunk x of line r, of 16 bytes, is at x ^ (r & 7).
## A descriptor of an operand in local memory has these fields, in units of 16 bytes:
##   from bit 0    the operand's address
##   from bit 16   `columns`: if its rows are summed over (v), the distance of 64 columns from the next 64; else ignored
##   from bit 32   64, the distance of groups of 8 lines
##   from bit 62   1, the code of swizzled lines of 128 bytes
## A warpgroup has 64 rows of sums, a warp 16 of them; their places in registers are as in _products.
<%!
# The sums x of a lane, x0_{j}_{r}, of 64 rows and each block j of 8 columns: their names, and (tied) operands of asm.
# places: the text "{%first, ...}" that refers to `count` operands of asm.
names = lambda x, columns: [f"{x}0_{j}_{r}" for j in range(columns // 8) for r in range(4)]
tied = lambda x, columns: ", ".join(f'"+f"({name})' for name in names(x, columns))
places = lambda first, count: "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"
%>

<%def name="define()">
#define DESCRIPTOR(address, columns) \
    ((1ul << 62) | (64ul << 32) | ((ulong)(columns) << 16) | (((address) & 0x3ffff) >> 4))
#define WGMMA_FENCE() asm volatile("//@sm_90a wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() asm volatile("//@sm_90a wgmma.commit_group.sync.aligned;" ::: "memory")
// Make the tiles that have arrived in local memory visible to the matrix unit (the async proxy of PTX).
#define FENCE_TILES() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
</%def>

## MULTIPLY_x adds the product of two matrices to the sums x of N columns: both are in local memory, or the first is in
## registers.  a, b: descriptors, or a prefix of four registers.  kind: f16 or bf16.  accumulate: 0 overwrites the sums.
## WAIT_x waits for the sums; at most `pending` groups of products that were started later may be unfinished.
<%def name="from_local(x, N, kind)">
#define MULTIPLY_${x}(a, b, accumulate) \
    asm volatile("//@sm_90a { .reg .pred p; setp.ne.b32 p, " #accumulate ", 0; " \
        "wgmma.mma_async.sync.aligned.m64n${N}k16.f32.${kind}.${kind} ${places(0, N // 2)}, " \
        "%${N // 2}, %${N // 2 + 1}, p, 1, 1, 0, 0; }" : ${tied(x, N)} : "l"(a), "l"(b) : "memory")
${wait(x, N)}\
</%def>
<%def name="from_registers(x, N, kind)">
#define MULTIPLY_${x}(a, b) \
    asm volatile("//@sm_90a { .reg .pred p; setp.ne.b32 p, 1, 0; " \
        "wgmma.mma_async.sync.aligned.m64n${N}k16.f32.${kind}.${kind} ${places(0, N // 2)}, " \
        "${places(N // 2, 4)}, %${N // 2 + 4}, p, 1, 1, 1; }" \
        : ${tied(x, N)} : "r"(a##_0), "r"(a##_1), "r"(a##_2), "r"(a##_3), "l"(b) : "memory")
${wait(x, N)}\
</%def>
<%def name="wait(x, N)">\
#define WAIT_${x}(pending) \
    asm volatile("//@sm_90a wgmma.wait_group.sync.aligned " #pending ";" : ${tied(x, N)} :: "memory")
</%def>

## Start x = a b'.  a and b are descriptors of tiles in local memory, of `rows` and `others` rows of D elements.  A step
## of 16 columns is 2 units of 16 bytes along a line; 64 columns further are the next lines, of 8 units for each row.
<%def name="multiply_rows(x, a, b, D, rows, others)">\
            WGMMA_FENCE();
% for s in range(D // 16):
            MULTIPLY_${x}(${a} + ${s // 4 * 8 * rows + s % 4 * 2},
                ${b} + ${s // 4 * 8 * others + s % 4 * 2}, ${int(s > 0)});
% endfor
            WGMMA_COMMIT();
</%def>

## Start x += p b.  p is in registers; b is the descriptor of `rows` rows in local memory, whose lines have 8 units of
## 16 bytes.  A step j covers 16 rows.
<%def name="add_rows(x, p, b, rows)">\
            WGMMA_FENCE();
% for j in range(0, rows // 8, 2):
            MULTIPLY_${x}(${p}0_${j}, ${b} + ${64 * j});
% endfor
            WGMMA_COMMIT();
</%def>
