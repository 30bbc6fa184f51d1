## shift_of(sum): the number that is subtracted from the scores of a query, so that their exponentials are
## probabilities.
<%def name="define(real)">
// sum: the logarithm of the sum of the exponentials.  It is minus infinity if the query sees no key, and so are all of
// its scores; then 0 is subtracted, because the difference of two infinities is NaN.
static inline ${real} shift_of(${real} sum) { return sum == -(${real})INFINITY ? 0 : sum; }
</%def>
