## A transform of a prime length n as a cyclic convolution of n - 1 numbers (Rader), in fft/group: with a generator g of
## the numbers modulo n, result g^-q is x[0] plus the sum over m of x[g^m] w^(g^(m - q)), w = exp(-2 pi i / n).
##
##   read_permuted(plan)       read the inputs of the first stage from local memory: row m is number g^m
##   read_zeroth(plan)         declare `zeroth`, number 0
##   multiply_spectrum(plan)   declare `total`, the sum of all numbers.  Conjugate the results of the last stage, and
##                             multiply them by the conjugate transform of the roots.  Add number 0 to element 0, which
##                             adds it to all results.  Further stages of the same transform then compute the inverse
##   write_permuted(plan)      write the results to local memory: row q is number g^-q, and the sum is number 0
##
## product(a, b) is that of complex numbers.  powers: the table of g^m for m = 0 ... n - 1.  filter: the table of the
## conjugate transform of the roots.  Registers re, im have number r of the work-item's butterfly b at b R + r.  plan
## (GroupShape): a stage has radix R, and of its `count` butterflies a work-item has those at .item + b * items, of the
## transform .slot; its rows are `count` apart.  numbers: local memory; layout.place(row, slot): C text of the index of
## a row's real part there; imaginary parts are layout.size behind.
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%def name="read_permuted(plan)">
<% first, layout = plan.stages[0], plan.natural %>\
% for b in range(first.butterflies):
    ${local.guard(plan, first, b)}{
        __global const uint *row = powers + ${first.item};
% for r in range(first.radix):
        const uint at${r} = ${layout.place(f"row[{b * plan.items + r * first.count}]", first.slot)};
        re[${b * first.radix + r}] = numbers[at${r}], im[${b * first.radix + r}] = numbers[at${r} + ${layout.size}];
% endfor
    }
% endfor
</%def>

<%def name="read_zeroth(plan)">
<% at = plan.natural.place("0", plan.final.slot) %>\
    const pair_t zeroth = (pair_t)(numbers[${at}], numbers[${at} + ${plan.natural.size}]);
</%def>

<%def name="multiply_spectrum(plan)">
<% last = plan.stages[-1] %>\
    const pair_t total = zeroth + (pair_t)(re[0], im[0]);
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
        __global const pair_t *factor = filter + ${last.item};
% for r in range(last.radix):
<% register = b * last.radix + r %>\
        const pair_t v${r} =
            product((pair_t)(re[${register}], -im[${register}]), factor[${b * plan.items + r * last.count}]);
        re[${register}] = v${r}.x, im[${register}] = v${r}.y;
% endfor
    }
% endfor
    if (${last.item} == 0)
        re[0] += zeroth.x, im[0] -= zeroth.y;
</%def>

<%def name="write_permuted(plan)">
<% last, layout = plan.final, plan.natural %>\
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
        __global const uint *row = powers + (${plan.length} - ${last.item});
% for r in range(last.radix):
        const uint at${r} = ${layout.place(f"row[-{b * plan.items + r * last.count}]", last.slot)};
        numbers[at${r}] = re[${b * last.radix + r}], numbers[at${r} + ${layout.size}] = -im[${b * last.radix + r}];
% endfor
    }
% endfor
    if (${last.item} == 0) {
        const uint at = ${layout.place("0", last.slot)};
        numbers[at] = total.x, numbers[at + ${layout.size}] = total.y;
    }
</%def>
