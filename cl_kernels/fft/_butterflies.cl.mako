## Discrete Fourier transforms of a few numbers, as straight code, which portable_gpu/ops/fft/butterflies.py writes.
##
##   define(radices, suffix)   butterfly2(re, im), butterfly3 ...: replace the numbers re[r] + i im[r] by
##                             sum over r of (re[r] + i im[r]) exp(-2 pi i k r / R) for k = 0 .. R-1
##
## vec_t is the type of re and im: a real number, or a vector of them.  suffix: that of literals, f for float.
<%!
from portable_gpu.ops.fft.butterflies import butterfly
%>
<%def name="define(radices, suffix)">
% for radix in radices:
static inline void butterfly${radix}(vec_t *re, vec_t *im)
{
% for statement in butterfly(radix, suffix):
    ${statement}
% endfor
}
% endfor
</%def>
