## A transform of any length n as a convolution with a chirp, c(j) = exp(-pi i j^2 / n) (Bluestein), in fft/group:
## result k is c(k) times the sum over j of x(j) c(j) conj(c(k - j)).
##
##   multiply_input(plan)      multiply the inputs of the first stage by the chirp; rows from n on are zeros
##   multiply_spectrum(plan)   conjugate the results of the last stage, and multiply them by the conjugate transform of
##                             the conjugate chirp; further stages of the same transform then compute the inverse
##   multiply_result(plan)     conjugate the results of the inverse transform, and multiply them by the chirp
##
## Registers re, im have number r of the work-item's butterfly b at b R + r.  plan (GroupShape): a stage has radix R,
## and of its `count` butterflies a work-item has those at .item + b * items; its rows are `count` apart.  chirp: the
## table of c.  product(a, b) is that of complex numbers.  filter: the table of the conjugate transform of conj(c).
## Numbers are conjugated before they are multiplied, because Intel's OpenCL for CPUs (2026.2) lost terms of a negated
## sum of products.
<%def name="multiply_input(plan)">
<% first = plan.stages[0] %>\
    {
        pair_t c[${plan.used_inputs}];
% for b in range(first.butterflies):
% for r in range(plan.used_inputs):
        c[${r}] = chirp[min(${first.item} + ${b * plan.items + r * first.count}, n - 1)];
% endfor
% for r in range(first.radix):
<% row, register = f"{first.item} + {b * plan.items + r * first.count}", b * first.radix + r %>\
% if r < plan.used_inputs:
        {
            const pair_t v = product((pair_t)(re[${register}], im[${register}]), c[${r}]);
            re[${register}] = ${row} < n ? v.x : 0, im[${register}] = ${row} < n ? v.y : 0;
        }
% else:
        re[${register}] = im[${register}] = 0;
% endif
% endfor
% endfor
    }
</%def>

<%def name="multiply_spectrum(plan)">
<% last = plan.stages[-1] %>\
% for b in range(last.butterflies):
    {
        __global const pair_t *factor = filter + min(${last.item} + ${b * plan.items}, ${last.count - 1}u);
% for r in range(last.radix):
<% register = b * last.radix + r %>\
        const pair_t v${r} = product((pair_t)(re[${register}], -im[${register}]), factor[${r * last.count}]);
        re[${register}] = v${r}.x, im[${register}] = v${r}.y;
% endfor
    }
% endfor
</%def>

<%def name="multiply_result(plan)">
<% last = plan.final %>\
% for b in range(last.butterflies):
% for r in range(plan.used_outputs):
<% row, register = f"{last.item} + {b * plan.items + r * last.count}", b * last.radix + r %>\
    {
        const pair_t v = product((pair_t)(re[${register}], -im[${register}]), chirp[min(${row}, n - 1)]);
        re[${register}] = v.x, im[${register}] = v.y;
    }
% endfor
% endfor
</%def>
