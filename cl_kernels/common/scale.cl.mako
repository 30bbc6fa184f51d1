## The scaling of every product: result = alpha * sum + beta * c is scaled(alpha, sum) + scaled(beta, c) in all kernels.
##
## type: the C type of the factor and of the value.  is_complex: whether it is a vector (re, im).
<%def name="define(type, is_complex)">
% if is_complex:
// A real factor scales each part separately, so that an infinity in one part does not make the other part NaN.
static inline ${type} scaled(${type} factor, ${type} v)
{
    if (factor.y == 0) return factor.x * v;
    return (${type})(factor.x * v.x - factor.y * v.y, factor.x * v.y + factor.y * v.x);
}
% else:
static inline ${type} scaled(${type} factor, ${type} v) { return factor * v; }
% endif
</%def>
