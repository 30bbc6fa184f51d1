## The matrix instruction of CDNA GPUs.  MFMA(d, a, b) multiplies the matrices whose elements 64 lanes hold, and adds
## the product to their sums, of type sums_t; a and b are 32-bit words.  portable_gpu/ops/gemm/matrix/instruction.py has
## the layout.  If the device has no such instruction, the lanes store their values in local memory and multiply there.
## That is slow, and contains a barrier of the whole group; the rest of the kernel is the same.
##
## instruction: MatrixInstruction.  It adds the product of A (side x depth) and B (depth x side) to D (side x side).  A
## lane holds lane_depth elements of A and of B, in `words` words each, and `sums` elements of D.
## emulated: whether the device lacks the instruction.

<%def name="define(instruction, emulated)">
typedef ${vector(instruction.sum_type, instruction.sums)} sums_t;
% if emulated:
${emulation(instruction)}
#define MFMA(d, a, b) (d = multiplied(d, a, b, LOCAL_ARRAY(matrices)))
% else:
% if instruction.kind == "f16":
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
% endif
#define MFMA(d, a, b) (d = __builtin_amdgcn_mfma_${instruction.name}(as_${instruction.type}(a), \
    as_${instruction.type}(b), d, 0, 0, 0))
% endif
</%def>

## The kernel's attribute: limit the registers of a wavefront so that a SIMD has space for two, and one computes while
## the other waits.  If all sums fit in the general registers within this limit, the compiler does not move them to
## other registers in each step.
<%def name="attributes(emulated)">${"" if emulated else "__attribute__((amdgpu_waves_per_eu(2)))"}</%def>

## The components of a chunk (a uint4) that one instruction takes, from word `first` on: for example s01.
<%def name="words(instruction, first)"><%
return "s" + "".join(str(first + i) for i in range(instruction.words))
%></%def>

## Declare the local memory of the emulation: A and B of each wavefront of the group.
<%def name="emulation_memory(instruction, emulated, group)">
% if emulated:
    __local ${instruction.sum_type} matrices[${2 * instruction.lane_depth * group}];
% endif
</%def>

## The product by its definition.  Lane l of a wavefront holds row (column) l % side of A (B), and lane_depth steps of k
## from lane_depth (l / side) on.  Of D it holds column l % side; sum r is that of row i.
##
##   matrices   | A of wavefront 0, by rows | B of wavefront 0, by rows | A of wavefront 1 | ...
<%def name="emulation(instruction)">
<%
side, lane_depth, type = instruction.side, instruction.lane_depth, instruction.sum_type
words = vector("uint", instruction.words)
elements = {
    "f16": "vload_half({}, (const half *)&words)",
    "bf16": "as_float((uint)((const ushort *)&words)[{}] << 16)",
    "f32": "as_float(words)",
    "f64": "as_double(words)",
}
%>
static inline sums_t multiplied(sums_t d, ${words} a, ${words} b, __local ${type} *matrices)
{
    const int lane = get_local_id(0) % 64;
    __local ${type} *a_matrix = matrices + get_local_id(0) / 64 * ${2 * side * instruction.depth},
        *b_matrix = a_matrix + ${side * instruction.depth};
% for name in "ab":
    {
        const ${words} words = ${name};
% for e in range(lane_depth):
<% k = f"{lane_depth} * (lane / {side}) + {e}" %>\
        ${name}_matrix[${(f"(lane % {side}) * {instruction.depth} + {k}" if name == "a"
            else f"({k}) * {side} + lane % {side}")}] = ${elements[instruction.kind].format(e)};
% endfor
    }
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int r = 0; r < ${instruction.sums}; ++r) {
        const int j = lane % ${side};
% if instruction.kind == "f64":
        const int i = 4 * r + lane / 16;
% else:
        const int i = 8 * (r / 4) + 4 * (lane / 32) + r % 4;
% endif
        ${type} sum = ((${type} *)&d)[r];
        for (int k = 0; k < ${instruction.depth}; ++k)
            sum += a_matrix[i * ${instruction.depth} + k] * b_matrix[k * ${side} + j];
        ((${type} *)&d)[r] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return d;
}
</%def>
