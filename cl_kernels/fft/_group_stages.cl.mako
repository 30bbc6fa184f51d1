## Stages of transforms whose numbers a group's work-items hold in registers.
##
##   butterfly j of a stage of radix R, M = n / R of them:     rows j, j + M, j + 2 M ...
##   goes on as rows                                           (j / N) N R + j % N + r N,  r = 0 .. R-1
##
## N is the product of the radices before (Stockham).  Number r is multiplied before by exp(-2 pi i (j % N) r / (N R)).
## Of these roots tables have r = 1, 2, 4, 8; others are products of two.
##
##   define(plan)     stage0(re, im, t), stage1(re, im, t, roots) ...: butterflies t, t + items, ...
##   powers(R, w)     w[r] for all r < R from the powers of two among them
<%def name="powers(R)">
% for r in range(3, R):
% if r & (r - 1):
<% high = 1 << (r.bit_length() - 1) %>\
    w[${r}] = product(w[${high}], w[${r - high}]);
% endif
% endfor
</%def>
<%def name="define(plan)">
% for stage in plan.stages:
<% R, N = stage.radix, stage.before %>\
% if N > 1:
static inline void twist${stage.number}(real_t *re, real_t *im, uint k, __global const pair_t *roots)
{
    pair_t w[${R}];
% for bit in range((R - 1).bit_length()):
    w[${1 << bit}] = roots[${stage.table + bit * N} + k];
% endfor
${powers(R)}\
% for r in range(1, R):
    {
        const pair_t v = product((pair_t)(re[${r}], im[${r}]), w[${r}]);
        re[${r}] = v.x, im[${r}] = v.y;
    }
% endfor
}
% endif
static inline void stage${stage.number}(real_t *re, real_t *im, uint t${", __global const pair_t *roots" if N > 1 else ""})
{
% for b in range(stage.butterflies):
% if N > 1:
    twist${stage.number}(re + ${b * R}, im + ${b * R}, (t + ${b * plan.items}) % ${N}, roots);
% endif
    butterfly${R}(re + ${b * R}, im + ${b * R});
% endfor
}
% endfor
</%def>
