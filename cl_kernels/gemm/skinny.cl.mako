## C = epilogue(alpha * A @ B + beta * C) with few columns, by matrix instructions of NVIDIA's warps that read A from
## global memory in its layout: y[o, v] = sum over k of w[o, k] * x[k, v], for o < m and Q vectors v.  A work-group
## computes 16 x blocks rows, or with `split` a part of their sums.
##
##   across (k runs across the lines of w)      along (k runs along them)
##
##        o -> 16 x blocks                              k -> 32
##    k   | lane g = 0 | g = 1 | ...                o   row g    | 8 of lane q = 0 | q = 1 | ...
##    |   four steps of k of q = 0, then of q = 1   |   row g+8
##    v 16                                          v 16 x blocks
##
## The pictures show what the lanes 4 g + q of a warp load of w in one step.  The warps of a group have steps along k in
## turn, policy.unroll of them in flight.  Their sums are added in local memory.  With `split` the last group of a block
## adds the sums of its groups, in a fixed order:
##
##   partial  | part 0: vector 0: all m rows | vector 1 | ... || part 1 ...       one 32-bit word a sum
##
## Group g has block g / parts of the rows, and part g % parts of k: see gemv/_part, which declares block, part, first
## and last.
##
## policy  SkinnyPolicy       elem, out   elements of w and x, and of y         Q  the number of vectors (columns)
## across  as above           x_wide      whether x is read in vectors along k
## blocks  the number of blocks of 16 rows that a group computes
## finish  operations on each element (see gemv/_put), or None
## Arguments: w_pitch, the stride of w's lines; x_pitch, y_pitch, strides of vectors, in elements.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%namespace name="part" file="/gemv/_part.cl.mako"/>
<%namespace name="fragments" file="/gemm/_skinny_fragments.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
W, G, tile = policy.warps, policy.group_size, 16 * blocks
warp_k, lane_k = fragments.module.depth(across)  # steps of k that a warp, and a lane, loads at a time
size = 32 * len(fragments.module.sums(blocks, Q))  # the sums of a warp
%>
${element.scalar(out)}
${put.define(out, "float", finish)}
% if split:
${fix_up.define()}
% endif
${fragments.define()}
__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void ${kernel("gemm_skinny")}
{
    __local float sums[${W * size}];
    const uint lid = get_local_id(0), warp = lid / 32, lane = lid % 32, g = lane / 4, q = lane % 4;
${put.advance_arrays(finish)}\
${part.bounds()}\
    const long top = (long)block * ${tile};
${fragments.place()}\
${fragments.declare_sums()}\
${walk_along_k(policy.unroll)}\
${fragments.store_sums()}\
    barrier(CLK_LOCAL_MEM_FENCE);
% if split:
    __local uint is_last;
    volatile __global uint *words = (volatile __global uint *)partial;
% endif
    // The work-items add the sums of the warps for row o of vector v.
    for (uint e = lid; e < ${Q * tile}u; e += ${G}u) {
        const long o = top + e % ${tile}u, v = e / ${tile}u;
        float sum = 0;
% for w in range(W):
        sum += sums[${w * size} + e];
% endfor
        if (o < m) {
% if split:
            ${fix_up.publish("float", f"words + ((part * {Q}l + v) * m + o)", "sum")}
% else:
            put(y + y_offset + o * y_step + v * y_pitch, sum, alpha, beta, reads_y${put.at(finish, "o", "v")});
% endif
        }
    }
% if split:
${add_parts()}\
% endif
}

## Multiply the warp's steps of k: U in flight, and then one by one to the end.  k: the lane's first one.
<%def name="walk_along_k(U)">\
    long k = first + warp * ${warp_k} + q * ${lane_k};
    for (; k - q * ${lane_k} + ${(U - 1) * W * warp_k + warp_k} <= last; k += ${U * W * warp_k}) {
% for u in range(U):
${fragments.declare(u)}\
${fragments.load(u, f"(k + {u * W * warp_k})", False)}\
% endfor
% for u in range(U):
${fragments.multiply(u)}\
% endfor
    }
    for (; k - q * ${lane_k} < last; k += ${W * warp_k}) {
${fragments.declare(0)}\
${fragments.load(0, "k", True)}\
${fragments.multiply(0)}\
    }
</%def>

## The last group of a block to finish adds the parts in order; the others return.
<%def name="add_parts()">\
${fix_up.arrive("counters + block", "parts", "lid == 0")}\
    if (!is_last) return;
    for (uint e = lid; e < ${Q * tile}u; e += ${G}u) {
        const long o = top + e % ${tile}u, v = e / ${tile}u;
        if (o >= m) continue;
        float sum = 0;
        for (uint p = 0; p < parts; ++p) sum += ${fix_up.collect("float", f"words + ((p * {Q}l + v) * m + o)")};
        put(y + y_offset + o * y_step + v * y_pitch, sum, alpha, beta, reads_y${put.at(finish, "o", "v")});
    }
</%def>
