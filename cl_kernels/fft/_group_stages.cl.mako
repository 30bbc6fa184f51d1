## Stages of transforms in fft/group, whose numbers the work-items of a group hold in registers.
##
##   inputs of butterfly j < M = n / R of a stage of radix R     rows j, j + M, j + 2 M ...
##   its results                                                 rows (j / N) N R + j % N + r N,  r = 0 .. R-1
##
## N is the product of the radices of the previous stages (Stockham).  re, im: number r of the work-item's butterfly b
## at b R + r.  Input r is multiplied by the root exp(-2 pi i (j % N) r / (N R)).  Tables have the roots for r = 1, 2, 4
## and 8; others are products of two.  In a convolution, which needs registers, each root is computed from a few others
## just before it is used.
##
##   define(plan, tag)     stage0(re, im, w), stage1(re, im, w) ...: a work-item's butterflies, by its roots
##   roots(plan, stage)                  declare w<number>: the roots of the butterflies t, t + items, ... of a stage,
##                                       each with `bits` roots, those for r = 1, 2, 4 ...
##   load_twists(plan, form, lane)       compute `twists` in local memory: the factors exp(-2 pi i k l / twiddle_length)
##                                       of row k of lane l of the last stage's results, for the first row of each
##                                       butterfly (of a staged target: of a work-item's rows), and for steps from
##                                       row to row; lane(slot): l
##   twist_all(plan, lane, loaded)       multiply results by these factors, from `twists` or from tables of roots
<%def name="define(plan, tag)">
% for stage in (*plan.stages, *plan.back):
<% R, N = stage.radix, stage.before %>\
% if N > 1:
static inline void twist${stage.number}${tag}(real_t *re, real_t *im, const pair_t *table_roots)
{
    pair_t w[${R}];
% for bit in range((R - 1).bit_length()):
    w[${1 << bit}] = table_roots[${bit}];
% endfor
## at_once: roots that are computed before they are used.  Root r is the product of roots high and r - high, which in a
## convolution is below `low`, so that few roots stay in registers.
<% at_once, low = (1, 4 if R > 8 else 2) if plan.back else (R, R) %>\
% for begin in range(0, R, at_once):
% for r in range(max(begin, 1), begin + at_once):
<% high = r - r % low if r > low and r % low else 1 << (r.bit_length() - 1) %>\
% if r & (r - 1):
    w[${r}] = product(w[${high}], w[${r - high}]);
% endif
% endfor
% for r in range(max(begin, 1), begin + at_once):
    {
        const pair_t v = product((pair_t)(re[${r}], im[${r}]), w[${r}]);
        re[${r}] = v.x, im[${r}] = v.y;
    }
% endfor
% endfor
}
% endif
static inline void stage${stage.number}${tag}(real_t *re, real_t *im${", const pair_t *w" if N > 1 else ""})
{
% for b in range(stage.butterflies):
% if N > 1:
    twist${stage.number}${tag}(re + ${b * R}, im + ${b * R}, w + ${b * (R - 1).bit_length()});
% endif
    butterfly${R}(re + ${b * R}, im + ${b * R});
% endfor
}
% endfor
</%def>
<%def name="roots(plan, stage)">
<% bits = (stage.radix - 1).bit_length() %>\
    const pair_t w${stage.number}[${bits * stage.butterflies}] = {
% for b in range(stage.butterflies):
        ${", ".join(f"roots[{stage.table + bit * stage.before} + ({stage.butterfly(b, plan.items)}) % {stage.before}]"
            for bit in range(bits))},
% endfor
    };
</%def>

<%def name="load_twists(plan, form, lane)">
<%
last, M, steps = plan.final, plan.final.count, plan.steps(form) * plan.slots
step = plan.items if plan.staged_target else M
%>\
    // Steps of 2^bit rows, for each bit and slot; behind them the first row of each work-item.
    for (uint index = id; index < ${steps}; index += ${plan.group})
        twists[index] = root_of(((ulong)${step} << index / ${plan.slots}) * ${lane(f"(index % {plan.slots})")}, coarse,
            fine, shift);
% if plan.staged_target:
    twists[${steps} + id] = root_of((ulong)(id / ${plan.slots}) * ${lane(f"(id % {plan.slots})")}, coarse, fine, shift);
% else:
% for b in range(last.butterflies):
    twists[${steps + b * plan.group} + id] =
        root_of((ulong)min(${last.item} + ${b * plan.items}, ${M - 1}u) * ${lane(last.slot)}, coarse, fine, shift);
% endfor
% endif
% if not plan.staged_target and (len(plan.stages) == 1 or plan.within_subgroup):
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>

<%def name="twist_all(plan, lane, loaded)">
<%
last, R, M = plan.final, plan.used_outputs, plan.final.count
bits = (R - 1).bit_length()
%>\
    {
% for bit in range(bits):
        const pair_t w${1 << bit} = ${(f"twists[{bit * plan.slots} + {last.slot}]"
            if loaded
            else f"root_of({M << bit}ul * {lane(last.slot)}, coarse, fine, shift)")};
% endfor
% for b in range(last.butterflies):
        pair_t w_of${b}[${R}];
<% at = f"(ulong)min({last.item} + {b * plan.items}, {M - 1}u) * {lane(last.slot)}" %>\
        w_of${b}[0] = ${(f"twists[{bits * plan.slots + b * plan.group} + id]" if loaded
            else f"root_of({at}, coarse, fine, shift)")};
% for r in range(1, R):
<% high = 1 << (r.bit_length() - 1) %>\
        w_of${b}[${r}] = product(w_of${b}[${r - high}], w${high});
% endfor
% for r in range(R):
        {
            const pair_t v = product((pair_t)(re[${b * last.radix + r}], im[${b * last.radix + r}]), w_of${b}[${r}]);
            re[${b * last.radix + r}] = v.x, im[${b * last.radix + r}] = v.y;
        }
% endfor
% endfor
    }
</%def>
