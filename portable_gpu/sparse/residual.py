"""Residuals of a sparse matrix in its own precision, for iterative refinement."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from portable_gpu.dtypes import element
from portable_gpu.ops.fronts.residual import Rows, residual_plan, sums_plan
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.call import Call
from portable_gpu.sparse.matrix import Pattern
from portable_gpu.sparse.numeric import Numeric

#: Refinement stops at a backward error of this many units of rounding.
_ENOUGH = 2


class SparseSystem:
    """See :class:`portable_gpu.linalg.refinement.System`."""

    def __init__(self, numeric: Numeric, values: Any, queue: Any, dtype: np.dtype[Any]) -> None:
        """Compute the sums of the absolute values of each row.

        Args:
            numeric: The plans of the pattern.
            values: The values of the lower triangle, on the device.
            queue: The queue.
            dtype: The dtype of right-hand sides.
        """
        self._numeric, self._values, self._queue, self.dtype = numeric, values, queue, dtype
        self.tolerance = _ENOUGH * float(np.finfo(dtype).eps)
        self._rows: Rows = numeric.cached("rows", lambda: rows_of(numeric))
        elem = element(values.dtype)
        plan = numeric.cached(("sums", elem), lambda: sums_plan(self._rows, elem))
        call = Call([values], None, queue)
        view = call.input(values, "values")
        real = np.empty(0, values.dtype).real.dtype
        self.sums = call.run(plan, (view, call.output((numeric.symbolic.n, 1), real)))

    def spread(self, b: Any) -> Any:
        """See :meth:`System.spread`."""
        return b

    def residual(self, b: Any, x: Any) -> Any:
        """See :meth:`System.residual`."""
        call = Call([b, x, self._values], None, self._queue)
        views = call.input(self._values, "values"), call.input(b, "b"), call.input(x, "x")
        out = call.output(tuple(b.shape), self.dtype)
        a, elem, count = element(self._values.dtype), element(self.dtype), b.shape[1]
        operands = [Operand(elem, view.strides[0], view.strides[1]) for view in views[1:]]
        plan = self._numeric.cached_of_solves(
            count,
            ("residual", a, *operands),
            lambda: residual_plan(self._rows, a, elem, count, *operands),
        )
        return call.run(plan, (*views, out))


def rows_of(numeric: Numeric) -> Rows:
    """Build all rows of a matrix from its lower triangle."""
    pattern: Pattern = numeric.symbolic.pattern
    lower = np.arange(pattern.nnz)
    row = np.repeat(np.arange(pattern.n), np.diff(pattern.pointers))
    below = row > pattern.columns
    rows = np.concatenate([row, pattern.columns[below]])
    columns = np.concatenate([pattern.columns, row[below]])
    sources = np.concatenate([lower, ~lower[below]])
    full = scipy.sparse.csr_array((sources, (rows, columns)), shape=(pattern.n, pattern.n))
    full.sort_indices()
    return Rows(numeric.engine, full.indptr, full.indices, full.data)
