## What is subtracted from the scores of a query before their exponentials are its probabilities.
<%def name="define(real)">
// sum: the logarithm of the sum of its exponentials, minus infinity for a query that sees no key.
static inline ${real} shift_of(${real} sum) { return sum == -(${real})INFINITY ? 0 : sum; }
</%def>
