## Transforms of a few numbers, as straight code: portable_gpu/ops/fft/butterflies.py writes it.
##
##   define(radices, suffix)   butterfly2(re, im), butterfly3 ...: re[r] + i im[r] by its transform
##
## vec_t is the type of re and im: a real number, or a vector of them.
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
