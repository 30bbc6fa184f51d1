## Products of pairs of float16 in gemm, on AMD GPUs that have this instruction: a 32-bit word holds two steps of k, and
## one instruction adds both products to a float32 sum.  Each product is exact in float32.
##
## tile: portable_gpu.ops.gemm.tiled.tile.RegisterTile.  emulated: whether the device lacks the instruction.
## MAD_PAIRS(acc, p, q): adds the products of a word p and of a vector of words q to a vector of sums.
<%def name="define(tile, emulated)">
% if emulated:
static inline float two_products(uint p, uint q, float sum)
{
    const float2 x = vload_half2(0, (const half *)&p), y = vload_half2(0, (const half *)&q);
    return x.x * y.x + (x.y * y.y + sum);
}
% else:
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define two_products(p, q, sum) __builtin_amdgcn_fdot2(as_half2(p), as_half2(q), sum, false)
% endif
<% parts = [component(tile.width_n, j) for j in range(tile.width_n)] %>
#define MAD_PAIRS(acc, p, q) (${", ".join(f"acc{s} = two_products(p, q{s}, acc{s})" for s in parts)})
</%def>
