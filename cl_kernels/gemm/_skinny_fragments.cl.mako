## The fragments of a lane of skinny: of w and x for a step of k, and of the sums of products.  Lane 4 g + q of a warp
## is lane q of the g-th quad.  The instruction (PTX ISA, mma.sync m16n8k16) computes the same for any order of rows,
## columns and steps of k, if both operands have the same.  In the order here one load gives all elements of a lane.  If
## k is across the lines of w, pairs along k are combined from two loads.
##
## u numbers the steps in flight, s the sets of 8 vectors, r the 16 x blocks rows by 16:
##   w_<j>_<u>, w_<r>_<h>_<u>   w of the lane's j-th step of k (across), or of row 16 r + 8 h + g (along)
##   x_<s>_<u>, d<r>_<s>_<i>    x of vector 8 s + g; the i-th of four sums, in the order of the instruction
##
## elem, blocks, across, x_wide, Q: as in skinny.  In scope: g, q, warp; top, the group's first row; last, where its k
## ends; sums, in local memory.
<%!
def sets(Q):
    """The numbers of the sets of 8 vectors; an instruction multiplies one set."""
    return range(-(-Q // 8))

def depth(across):
    """The steps of k that a warp loads at a time, and those that one lane loads."""
    return (16, 4) if across else (32, 8)

def lines(across, blocks):
    """The names of the loads of w by a lane: four steps of k, or two rows of each block."""
    return [f"w_{j}" for j in range(4)] if across else [f"w_{r}_{h}" for r in range(blocks) for h in range(2)]

def sums(blocks, Q):
    """The sums of a lane: the block of rows, the set of vectors, and the number in the instruction's result."""
    return [(r, s, i) for r in range(blocks) for s in sets(Q) for i in range(4)]
%>

## The C types and functions.  FIRSTS(a, b), SECONDS(a, b): the low, or the high, halves of two words as one word.
<%def name="define()">\
<% kind, lane_k = "f16" if elem.name == "f16" else "bf16", depth(across)[1] %>\
typedef ${vector("uint", blocks) if across else "uint4"} w_raw;
typedef uint${lane_k // 2} x_raw;
#define MMA(d, a0, a1, a2, a3, b0, b1) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.${kind}.${kind}.f32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d##_0), "+f"(d##_1), "+f"(d##_2), "+f"(d##_3) \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
#define FIRSTS(a, b) ((a) & 0xffffu | (b) << 16)
#define SECONDS(a, b) ((a) >> 16 | (b) & 0xffff0000u)

// Load the lane's steps of k of one vector, one by one; those from `last` on are zeros.
static inline x_raw x_singly(__global const ushort *x, long step, long k, long last)
{
    uint v[${lane_k}];
    for (int j = 0; j < ${lane_k}; ++j) v[j] = k + j < last ? x[(k + j) * step] : 0;
    return (x_raw)(${", ".join(f"v[{j}] | v[{j + 1}] << 16" for j in range(0, lane_k, 2))});
}
</%def>

## Declare pointers to the lane's rows of w and vectors of x.
<%def name="place()">\
    // Lanes for which there is no output or vector compute the last one again, and do not store it.
% if across:
    w += w_offset + min(top + ${2 * blocks} * g, m - ${2 * blocks});
% else:
% for i, name in enumerate(lines(across, blocks)):
    __global const ushort *${name} = w + w_offset + min(top + ${8 * i} + g, m - 1) * w_pitch;
% endfor
% endif
% for s in sets(Q):
    __global const ushort *x_${s} = x + x_offset + min(${8 * s}l + g, ${Q - 1}l) * x_pitch;
% endfor
</%def>

## Declare, or load, the values of the u-th step in flight.  k: a C expression, the lane's first step of k.  masked:
## whether steps of k from `last` on are zeros.
<%def name="declare(u)">
        w_raw ${", ".join(f"{name}_{u}" for name in lines(across, blocks))};
        x_raw ${", ".join(f"x_{s}_{u}" for s in sets(Q))};
</%def>
<%def name="load(u, k, masked)">
% for j, name in enumerate(lines(across, blocks)):
<% step, place = (f"{k} + {j}", f"w + ({k} + {j}) * w_pitch") if across else (k, f"{name} + {k}") %>\
<% loaded = f"*(__global const w_raw *)({place})" %>\
        ${name}_${u} = ${f"{step} < last ? {loaded} : (w_raw)(0)" if masked else loaded};
% endfor
% for s in sets(Q):
% if masked or not x_wide:
        x_${s}_${u} = x_singly(x_${s}, x_step, ${k}, last);
% else:
        x_${s}_${u} = *(__global const x_raw *)(x_${s} + ${k});
% endif
% endfor
</%def>

## Add the products of the u-th step in flight to the sums.
<%def name="multiply(u)">\
% for s in sets(Q):
${multiply_across(s, u) if across else multiply_along(s, u)}\
% endfor
</%def>
<%def name="multiply_across(s, u)">
% for r in range(blocks):
<% first, second, third, fourth = (f"w_{j}_{u}{component(blocks, r)}" for j in range(4)) %>\
        MMA(d${r}_${s}, FIRSTS(${first}, ${second}), SECONDS(${first}, ${second}), FIRSTS(${third}, ${fourth}),
            SECONDS(${third}, ${fourth}), x_${s}_${u}.x, x_${s}_${u}.y);
% endfor
</%def>

<%def name="multiply_along(s, u)">
% for r in range(blocks):
% for a, b in ("xy", "zw"):
        MMA(d${r}_${s}, w_${r}_0_${u}.${a}, w_${r}_1_${u}.${a}, w_${r}_0_${u}.${b}, w_${r}_1_${u}.${b},
            x_${s}_${u}.${a}, x_${s}_${u}.${b});
% endfor
% endfor
</%def>

<%def name="declare_sums()">    float ${", ".join(f"d{r}_{s}_{i} = 0" for r, s, i in sums(blocks, Q))};
</%def>
## Store the sums of a warp in local memory, in `sums`: for each warp, vector by vector, the 16 x blocks rows.
<%def name="store_sums()">\
    __local float *warp_sums = sums + warp * ${32 * len(sums(blocks, Q))};
% for r, s, i in sums(blocks, Q):
<% row = f"{2 * blocks} * g + {2 * r + i // 2}" if across else f"{16 * r + 8 * (i // 2)} + g" %>\
    warp_sums[(${8 * s + i % 2} + 2 * q) * ${16 * blocks} + ${row}] = d${r}_${s}_${i};
% endfor
</%def>
