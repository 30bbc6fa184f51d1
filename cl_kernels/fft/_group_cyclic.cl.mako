## A transform of a prime length n as a cyclic convolution of n - 1 numbers (Rader): with a generator g of the numbers
## modulo n, result g^-q is x[0] and the sum over m of x[g^m] times the root of g^(m - q).
##
##   given(plan)       rows of the first stage, from those in local memory: row m is number g^m
##   kept(plan)        zeroth: number 0
##   filtered(plan)    total: the sum of all numbers.  Results of the last stage there, conjugated, times the conjugate
##                     transform of the roots; number 0 joins where it is added to all.  Stages of the same transform
##                     take them back
##   wanted(plan)      results to local memory: row q is number g^-q, and the sum is number 0
##
## powers: g^m for m = 0 ... n - 1.
<%namespace name="local" file="/fft/_group_exchange.cl.mako"/>
<%def name="given(plan)">
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

<%def name="kept(plan)">
<% at = plan.natural.place("0", plan.final.slot) %>\
    const pair_t zeroth = (pair_t)(numbers[${at}], numbers[${at} + ${plan.natural.size}]);
</%def>

<%def name="filtered(plan)">
<% last = plan.stages[-1] %>\
    const pair_t total = zeroth + (pair_t)(re[0], im[0]);
% for b in range(last.butterflies):
    ${local.guard(plan, last, b)}{
        __global const pair_t *factor = filter + ${last.item};
% for r in range(last.radix):
<% k = b * last.radix + r %>\
        const pair_t v${r} = product((pair_t)(re[${k}], -im[${k}]), factor[${b * plan.items + r * last.count}]);
        re[${k}] = v${r}.x, im[${k}] = v${r}.y;
% endfor
    }
% endfor
    if (${last.item} == 0)
        re[0] += zeroth.x, im[0] -= zeroth.y;
</%def>

<%def name="wanted(plan)">
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
