## fft on a GPU: a work-group has one Fourier transform, or several adjacent ones, in its registers.
##
##      source ──load──▶ stage 0 ──local memory──▶ stage 1 ──local memory──▶ ... last stage ──put──▶ target
##
##      work-item (t, slot)      holds butterflies t, t + items ... of a stage, for the group's transform `slot`, as
##                               numbers (re, im): number r of butterfly b is re[b R + r], im[b R + r]
##
## Work-items that are neighbours in a group have neighbouring slots if lanes are adjacent in memory, else neighbouring
## t.  They change from the source's order to the result's at the first exchange.  A side is staged in local memory if
## only a few rows are adjacent in memory, so that neighbouring work-items access neighbouring elements, and for the
## form half, whose rows need their mirror images.
##
## fused     whether one group computes both passes of a part (_group_tickets)
## passes    one, or two; parts of the second pass follow those of the first pass: see _group_tickets.  Each has
##   plan      ops.fft.shape.GroupShape: items, slots, stages, layouts       planes    lanes (transforms) of a slot
##   source, result      ops.fft.passes.RenderedOperand: factors, and the form of a row (_cpu_load; packed and split:
##                       _group_split).  result.times: an array t that results are multiplied by, number by number
##   twisted   whether rows are multiplied by roots of one, between two passes of a long transform
##   twists    the number of these roots in local memory; 0 if there are none
##   by_batch  whether these roots depend on the number along the last batch axis, not on the number of the lane
##   unconditional     whether loads have no condition: some drivers make each conditional load wait for the one before
##   ahead     whether the copy engine copies a group's next line in advance: see _group_ahead
##   plan.back         the stages of the inverse transform, where a transform of n is a convolution: transform, multiply
##                     by a filter, transform back.  See _group_chirps and _group_cyclic
##   early     whether the roots of a stage are loaded while numbers are exchanged
##   all_in, all_out   whether every row of every lane exists
##   scaled    whether results are multiplied by a scale
##   tag       the suffix of its functions and parameters
## inverse   whether exponents are positive
## rank      batch axes in addition to the lanes
## A group reads all rows of its transforms before it stores any, so the source may be the target.
##
## Two real transforms are computed as one complex transform (see cpu), or one real transform as a complex one of half
## its length (see _group_split).  For the inverse direction, the real and imaginary parts of inputs and of results are
## exchanged.
<%namespace name="butterflies" file="/fft/_butterflies.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="numbers" file="/fft/_group_numbers.cl.mako"/>
<%namespace name="fft_pass" file="/fft/_group_pass.cl.mako"/>
<%namespace name="ahead" file="/fft/_group_ahead.cl.mako"/>
<%namespace name="tickets" file="/fft/_group_tickets.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%include file="/subgroup/warp_barrier.cl.mako"/>
<%
suffix = "" if real.needs_fp64 else "f"
joined = len(passes) == 2 and not fused
# Numbers of local memory, of each pass that needs some: `numbers`, one component after the other, and `twists`.
local = [p.plan.local_numbers for p in passes if len(p.plan.stages) > 1 or p.plan.staged_source or p.plan.staged_target]
twists = [p.twists for p in passes if p.twists]
%>
${numbers.types(real)}
% if any(p.twisted for p in passes):
${numbers.roots()}
% endif
${butterflies.define(sorted({stage.radix for p in passes for stage in (*p.plan.stages, *p.plan.back)}), suffix)}
% for p in passes:
${fft_pass.define(p)}
% endfor
% if joined:
${tickets.define()}
% endif
% if passes[0].ahead:
${ahead.define()}
% endif

__kernel ${group.of_size(passes[0].plan.group)}
void ${kernel("fft")}
{
% if local:
    __local real_t numbers[${max(local)}];
% endif
% if twists:
    __local pair_t twists[${max(twists)}];
% endif
    const uint id = get_local_id(0);
    const real_t sign = ${-1 if inverse else 1};
% if not passes[-1].scaled:
    const real_t scale = 1;
% endif
% if joined:
${tickets.take()}
    if (second) {
${tickets.wait()}\
${tickets.between("x")}\
${fft_pass.branch(passes[1], rank, "number")}\
${tickets.finish()}\
    } else {
        const real_t scale = 1;
${tickets.between("y")}\
${fft_pass.branch(passes[0], rank, "number")}\
${tickets.signal()}\
    }
% elif fused:
    {
        const real_t scale = 1;
${tickets.between("y")}\
${fft_pass.branch(passes[0], rank, "(uint)get_group_id(0)")}\
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    {
${tickets.between("x")}\
${fft_pass.branch(passes[1], rank, "(uint)get_group_id(0)")}\
    }
% elif passes[0].ahead:
${ahead.begin(passes[0], rank)}\
    for (uint number = get_group_id(0); number < groups; number += get_num_groups(0)) {
${fft_pass.body(passes[0], rank, "number")}\
    }
% else:
${fft_pass.body(passes[0], rank, "(uint)get_group_id(0)")}\
% endif
}
