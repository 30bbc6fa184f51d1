## Warpgroup matrix instructions of Hopper GPUs (PTX ISA, wgmma), and their fences: 128 work-items multiply a 64-row
## block of A by a panel of B, both in local memory, or A in registers (see _wgmma_registers).  `//@sm_90a` marks
## instructions that OpenCL's compiler does not accept: portable_gpu/runtime/retarget.py enables them in the PTX.
##
## An operand is stored in lines of 128 bytes, in 16-byte chunks; chunk c of line l is at c ^ (l & 7).
##   k along the line:   a line has 128 bytes of k of one row of A (column of B)
##   k across the lines: a line has 128 bytes of rows of A (columns of B), 64 elements of 16 bits, at one step of k;
##                       a block of 64 rows has a line for each step, and the blocks follow each other
## A descriptor contains, in units of 16 bytes, the start (bits 0 to 13), the distance of 64-row blocks (512, from bit
## 16) and that of groups of 8 lines (64, from bit 32), and the code 1 of the swizzle of 128 bytes (from bit 62).
## A_STEP and B_STEP, in the same units, advance it by the steps of k of one instruction: 32 bytes along a line, or 16
## lines.
##
## WGMMA<r>(a, b, accumulate) adds the product of the operands with the descriptors a and b to the sums d<r>_<i> of the
## r-th block of rows, or, if accumulate is 0, overwrites them.  trans_a, trans_b: 1 if k is across the lines, else 0.
## kind: f16, bf16 or tf32.

<%def name="instructions(policy, kind, trans_a, trans_b)">
#define A_STEP ${128 if trans_a else 2}
#define B_STEP ${128 if trans_b else 2}
#define DESCRIPTOR(address) ((1ul << 62) | (64ul << 32) | (512ul << 16) | (((address) & 0x3ffff) >> 4))
#define WGMMA_FENCE() asm volatile("//@sm_90a wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() asm volatile("//@sm_90a wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT(pending) asm volatile("//@sm_90a wgmma.wait_group.sync.aligned " #pending ";" ::: "memory")
% for r in range(policy.blocks):
#define SUMS${r} ${", ".join(f'"+f"(d{r}_{i})' for i in range(policy.tile_n // 2))}
#define WGMMA${r}(a, b, accumulate) \
    ${product(policy, kind, r, '"l"(a)', "" if kind == "tf32" else f", {trans_a}, {trans_b}")}
% endfor
</%def>

## The statement that adds A @ B to the sums of the r-th block.  a: A's descriptor, or its four registers, as operands
## of asm.  transposes: the last arguments of the instruction, for 16-bit elements.
<%def name="product(policy, kind, r, a, transposes)"><%
sums, a_registers = policy.tile_n // 2, a.count('"r"')
# The operands of asm have numbers: first the sums, then A, B and `accumulate`.
listed = lambda first, count: "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"
a_operand = listed(sums, a_registers) if a_registers else f"%{sums}"
b = sums + (a_registers or 1)
shape = f"m64n{policy.tile_n}k{8 if kind == 'tf32' else 16}"
return (
    f'asm volatile("//@sm_90a {{ .reg .pred p; setp.ne.b32 p, %{b + 1}, 0; wgmma.mma_async.sync.aligned.'
    f'{shape}.f32.{kind}.{kind} {listed(0, sums)}, {a_operand}, %{b}, p, 1, 1{transposes}; }}" '
    f': SUMS{r} : {a}, "l"(b), "r"(accumulate) : "memory")'
)
%></%def>

## Wait until all sums of this work-item are complete; code after it may read them.
<%def name="drain(policy)">
% for r in range(policy.blocks):
    asm volatile("//@sm_90a wgmma.wait_group.sync.aligned 0;" : SUMS${r} :: "memory");
% endfor
</%def>
