## fma: multiply-adds in registers.  Their rate is the benchmark's limit by arithmetic (roofline).
##
##   acc0 = acc0 * factor + term        the chains do not depend on each other, so `chains` of
##   acc1 = acc1 * factor + term        them hide the latency of a multiply-add
##   ...
##
## A work-item does 2 * steps * chains * lanes floating-point operations.  It stores its sums only if
## they are NaN.  They never are, but the compiler cannot exclude that, so it keeps the loop.
## real: float or double.  type: a vector of `lanes` of them.  Any number of groups of any size.
<%include file="/common/prelude.cl.mako"/>
#pragma OPENCL FP_CONTRACT ON
__kernel void ${kernel("multiply_adds")}
{
    const ${type} f = factor, t = term;
% for c in range(chains):
    ${type} acc${c} = (${real})get_global_id(0) + (${real})${c};
% endfor
    for (int i = 0; i < ${steps}; ++i) {
% for c in range(chains):
        acc${c} = acc${c} * f + t;
% endfor
    }
    const ${type} total = ${" + ".join(f"acc{c}" for c in range(chains))};
% if lanes == 1:
    const ${real} sum = total;
% else:
    const ${real} sum = ${" + ".join(f"total.s{i:x}" for i in range(lanes))};
% endif
    if (sum != sum)
        out[0] = sum;
}
