"""The OpenCL C text of each reduction: per-lane state, accumulator and final value.

A kernel keeps a small *lane state* per vector lane while it reads the elements.  After a block of
steps it *lifts* the state into an accumulator.  Accumulators are combined across lanes, work-items
and work-groups, and the last one is *finished* into one element of the result.

Floating sums lift every :data:`BLOCK` steps into a double word (hi, lo) that is added by TwoSum,
so that the error does not grow with n: |error| <= (BLOCK + 4) u sum|x| + O(n u^2) sum|x|.
Sources: Knuth, TAOCP 2, 4.2.2 (TwoSum); Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26(6), 2005.
nrm2 keeps three sums by magnitude: Blue, TOMS 4(1), 1978; Anderson, TOMS 44(1), 2017.  They are
needed only if squares overflow or underflow, which is rare.  So each work-item first folds its
elements with a :class:`Quick` form, one plain sum of squares; if that is not accurate, it folds
them again with the three sums.
"""

from portable_gpu.codegen.reductions.reduction import Quick, Reduction, value_names
from portable_gpu.codegen.reductions.request import Request, reduction

__all__ = ["Quick", "Reduction", "Request", "reduction", "value_names"]
