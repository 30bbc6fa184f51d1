## The number that is subtracted from the scores of a query: then their exponentials are its probabilities.
<%def name="define(real)">
// sum: the logarithm of the sum of the query's exponentials, which is minus infinity if the query sees no key.
static inline ${real} shift_of(${real} sum) { return sum == -(${real})INFINITY ? 0 : sum; }
</%def>
