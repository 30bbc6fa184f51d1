"""What each reduction folds, in OpenCL C: per-lane state, accumulator, and final value.

A kernel keeps a small *lane state* per vector lane while it streams through memory.  After a
block of steps it *lifts* the state into an accumulator, which travels between lanes, work-items
and work-groups, and in the end is *finished* into one element of the result.

Floating sums lift every :data:`BLOCK` steps into a double word (hi, lo) that is added by TwoSum,
so that the error does not grow with n: |error| <= (BLOCK + 4) u sum|x| + O(n u^2) sum|x|.
Sources: Knuth, TAOCP 2, 4.2.2 (TwoSum); Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26(6), 2005.
nrm2 keeps three sums by magnitude: Blue, TOMS 4(1), 1978; Anderson, TOMS 44(1), 2017.  They are
needed where squares leave the range of numbers, which is rare: each work-item first folds its share
by a :class:`Quick` form, one plain sum of squares, and by the three where that cannot be trusted.
"""

from portable_gpu.codegen.reductions.reduction import Quick, Reduction, value_names
from portable_gpu.codegen.reductions.request import Request, reduction

__all__ = ["Quick", "Reduction", "Request", "reduction", "value_names"]
