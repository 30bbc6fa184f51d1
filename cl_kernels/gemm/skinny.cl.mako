## C = alpha * A @ B + beta * C with few columns, by matrix instructions of warps that read A from
## global memory as it lies: y[o, q] = sum over k of w[o, k] * x[k, q].
##
##   across (k runs across the lines of w)      along (k runs along them)
##
##        o -> 16 x blocks                              k -> 32
##    k   | lane g = 0 | g = 1 | ...                o   row g    | 8 of lane q = 0 | q = 1 | ...
##    |   four rows of lane q = 0, then q = 1       |   row g+8
##    v 16                                          v 16 x blocks
##
## lane / 4 = g, lane % 4 = q.  Which row, column or step of k an index of the instruction (PTX ISA,
## mma.sync m16n8k16) stands for is free as long as both operands agree: so chosen that what a lane
## loads in one piece is what it has to hold; across the lines pairs along k are put together
## from two loads.
##
## The warps of a group take turns along k, `unroll` steps in flight; their sums meet in local memory,
## and with `split` those of the groups of a block in the last of them, in a fixed order.
##
## policy  SkinnyPolicy       elem, out   elements of w and x, and of y         Q  vectors (columns)
## across  as above           x_wide      whether x is read in vectors along k         blocks  of 16 rows
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
W, U, R = policy.warps, policy.unroll, blocks
G, tile, deep = policy.group_size, 16 * blocks, 16 if across else 32
sets = range(-(-Q // 8))
kind = "f16" if elem.name == "f16" else "bf16"
lane_k = 4 if across else 8
loads = [f"w_{j}" for j in range(4)] if across else [f"w_{r}_{h}" for r in range(R) for h in range(2)]
%>
${element.scalar(out)}
${gemv.scalars(out, "float")}
% if split:
${accumulator.define(word)}
${group.fold_across_groups(word)}
% endif
typedef ${f"uint{R}" if across and R > 1 else "uint" if across else "uint4"} w_raw;
typedef uint${lane_k // 2} x_raw;
#define MMA(d, a0, a1, a2, a3, b0, b1) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.${kind}.${kind}.f32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d##_0), "+f"(d##_1), "+f"(d##_2), "+f"(d##_3) \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
#define FIRSTS(a, b) ((a) & 0xffffu | (b) << 16)
#define SECONDS(a, b) ((a) >> 16 | (b) & 0xffff0000u)

// The steps of k of a lane, of one vector: those before `last`, and zeros beyond.
static inline x_raw x_some(__global const ushort *x, long step, long k, long last)
{
    uint v[${lane_k}];
    for (int j = 0; j < ${lane_k}; ++j) v[j] = k + j < last ? x[(k + j) * step] : 0;
    return (x_raw)(${", ".join(f"v[{j}] | v[{j + 1}] << 16" for j in range(0, lane_k, 2))});
}
## One step of k: loads to registers, and products.
<%def name="declare(u)">
        w_raw ${", ".join(f"{name}_{u}" for name in loads)};
        x_raw ${", ".join(f"x_{s}_{u}" for s in sets)};
</%def>
<%def name="load(u, k, masked)">
% if across:
% for j in range(4):
        w_${j}_${u} = ${f"{k} + {j} < last ? " if masked else ""}*(__global const w_raw *)(w + (${k} + ${j}) * w_pitch)${" : (w_raw)(0)" if masked else ""};
% endfor
% else:
% for r in range(R):
% for h in range(2):
        w_${r}_${h}_${u} = ${f"{k} < last ? " if masked else ""}*(__global const w_raw *)(w_${r}_${h} + ${k})${" : (w_raw)(0)" if masked else ""};
% endfor
% endfor
% endif
% for s in sets:
% if masked or not x_wide:
        x_${s}_${u} = x_some(x_${s}, x_step, ${k}, last);
% else:
        x_${s}_${u} = *(__global const x_raw *)(x_${s} + ${k});
% endif
% endfor
</%def>
<%def name="multiply(u)">
% for s in sets:
% if across:
% for i in range(R):
<% first, second, third, fourth = (f"w_{j}_{u}{component(R, i)}" for j in range(4)) %>\
        MMA(d${i}_${s}, FIRSTS(${first}, ${second}), SECONDS(${first}, ${second}), FIRSTS(${third}, ${fourth}), SECONDS(${third}, ${fourth}), x_${s}_${u}.x, x_${s}_${u}.y);
% endfor
% else:
% for r in range(R):
% for a, b in ("xy", "zw"):
        MMA(d${r}_${s}, w_${r}_0_${u}.${a}, w_${r}_1_${u}.${a}, w_${r}_0_${u}.${b}, w_${r}_1_${u}.${b}, x_${s}_${u}.${a}, x_${s}_${u}.${b});
% endfor
% endfor
% endif
% endfor
</%def>
__kernel __attribute__((reqd_work_group_size(${G}, 1, 1)))
void gemm_skinny(
    __global const ushort *restrict w, const long w_offset, const long w_pitch,
    __global const ushort *restrict x, const long x_offset, const long x_step, const long x_pitch,
    __global ${out.name}_t *restrict y, const long y_offset, const long y_step, const long y_pitch,
    const long m, const long n, const float alpha, const float beta, const int reads_y\
% if split:
, const uint parts, const long part_size, __global uint *partial, volatile __global uint *counters\
% endif
)
{
    __local float sums[${W * 8 * len(sets) * tile}];
    const uint lid = get_local_id(0), warp = lid / 32, lane = lid % 32, g = lane / 4, q = lane % 4;
% if split:
    const uint part = get_group_id(0) % parts, block = get_group_id(0) / parts;
    const long first = part * part_size, last = min(first + part_size, n);
% else:
    const uint block = get_group_id(0);
    const long first = 0, last = n;
% endif
    const long top = (long)block * ${tile};
    // Beyond the last outputs and vectors the last ones are repeated, and not stored.
% if across:
    w += w_offset + min(top + ${2 * R} * g, m - ${2 * R});
% else:
% for r in range(R):
% for h in range(2):
    __global const ushort *w_${r}_${h} = w + w_offset + min(top + ${16 * r + 8 * h} + g, m - 1) * w_pitch;
% endfor
% endfor
% endif
% for s in sets:
    __global const ushort *x_${s} = x + x_offset + min(${8 * s}l + g, ${Q - 1}l) * x_pitch;
% endfor
    float ${", ".join(f"d{i}_{s}_{r} = 0" for i in range(R) for s in sets for r in range(4))};
    long k = first + warp * ${deep} + q * ${lane_k};
    for (; k - q * ${lane_k} + ${(U - 1) * W * deep + deep} <= last; k += ${U * W * deep}) {
% for u in range(U):
${declare(u)}\
${load(u, f"(k + {u * W * deep})", False)}\
% endfor
% for u in range(U):
${multiply(u)}\
% endfor
    }
    for (; k - q * ${lane_k} < last; k += ${W * deep}) {
${declare(0)}\
${load(0, "k", True)}\
${multiply(0)}\
    }
    __local float *mine = sums + warp * ${8 * len(sets) * tile};
% for i in range(R):
% for s in sets:
% for r in range(4):
    mine[(${8 * s + r % 2} + 2 * q) * ${tile} + ${f"{2 * R} * g + {2 * i + r // 2}" if across else f"{16 * i + 8 * (r // 2)} + g"}] = d${i}_${s}_${r};
% endfor
% endfor
% endfor
    barrier(CLK_LOCAL_MEM_FENCE);
% if split:
    __local uint is_last;
    volatile __global uint *words = (volatile __global uint *)partial;
% endif
    for (uint e = lid; e < ${Q * tile}u; e += ${G}u) {
        const long o = top + e % ${tile}u, v = e / ${tile}u;
        float sum = 0;
% for w in range(W):
        sum += sums[${w * 8 * len(sets) * tile} + e];
% endfor
        if (o < m) {
% if split:
            word_publish(words + ((part * ${Q}l + v) * m + o), (word){sum});
% else:
            put(y + y_offset + o * y_step + v * y_pitch, sum, alpha, beta, reads_y);
% endif
        }
    }
% if split:
    GROUP_FENCE();
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (lid == 0) is_last = word_last(counters + block, parts);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (!is_last) return;
    for (uint e = lid; e < ${Q * tile}u; e += ${G}u) {
        const long o = top + e % ${tile}u, v = e / ${tile}u;
        if (o >= m) continue;
        float sum = 0;
        for (uint p = 0; p < parts; ++p) sum += word_collect(words + ((p * ${Q}l + v) * m + o)).re;
        put(y + y_offset + o * y_step + v * y_pitch, sum, alpha, beta, reads_y);
    }
% endif
}
