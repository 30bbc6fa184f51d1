"""The state of a factor, and results from it: solutions, their refinement, the inverse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl
import scipy.sparse

from portable_gpu.dtypes import element
from portable_gpu.linalg.place import Place
from portable_gpu.linalg.refinement import refined_by
from portable_gpu.linalg.views import joined, parts
from portable_gpu.ops.fronts.residual import Rows, residual_plan, sums_plan
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.reduce.conversion import converted
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.report import KernelReport
from portable_gpu.runtime.transfer import asnumpy
from portable_gpu.runtime.views import View, new_array
from portable_gpu.sparse.matrix import Pattern
from portable_gpu.sparse.numeric import Numeric
from portable_gpu.sparse.parts import FactorParts


@dataclass(frozen=True, eq=False)
class FactorState:
    """The state of a factor between two factorisations; it is immutable.

    Attributes:
        numeric, queue: The plans, and their queue.
        values: The values of the lower triangle, on the device.
        panels: L on the device; empty if L is in parts.
        parts: L if it is in parts, else ``None``.
        report: The status of the factorisation.
    """

    numeric: Numeric
    queue: cl.CommandQueue
    values: Any
    panels: Any
    parts: FactorParts | None
    report: KernelReport

    def solve(self, b: Any, dtype: np.dtype[Any], system: str, refine: str | int | None) -> Any:
        """Solve for a right-hand side on the device.

        Args:
            b: Shape (n,) or (n, k).
            dtype: The dtype of the solution.
            system: As for ``Factor.solve``.
            refine: The number of corrections of system ``A``, or ``auto``.
        """
        if not b.size:
            return new_array(state_for([b], None, self.queue), self.queue, tuple(b.shape), dtype)
        if system in ("P", "Pt"):
            return self._permuted(b, dtype, system)
        if dtype.kind == "c" and self.numeric.dtype.kind != "c":  # real and imaginary parts apart
            real = np.empty(0, dtype).real.dtype
            split = parts(converted(b, dtype, queue=self.queue))
            x = self.solve(split.reshape(b.shape[0], -1), real, system, refine)
            return joined(x.reshape(split.shape))
        if not refine:
            return self._by_factor(b, dtype, system)
        if b.dtype != dtype:
            b = converted(b, dtype, queue=self.queue)
        matrix = SparseSystem(self.numeric, self.values, self.queue, dtype)

        def solve(r: Any) -> Any:
            return self._by_factor(r, dtype, system)

        return refined_by(matrix, b, solve, refine, Place(None, self.queue))[0]

    def _permuted(self, b: Any, dtype: np.dtype[Any], system: str) -> Any:
        """Permute the rows of B, in the precision of B."""
        call = Call([b], None, self.queue)
        rhs, x = call.input(b, "b"), call.output(tuple(b.shape), dtype)
        return call.run(self.numeric.permuted(system, rhs, dtype), (rhs, x))

    def _by_factor(self, b: Any, dtype: np.dtype[Any], system: str) -> Any:
        call = Call([b, self.panels], None, self.queue)
        panels, rhs = call.input(self.panels, "factor"), call.input(b, "b")
        x = call.output(tuple(b.shape), dtype)
        count = 1 if b.ndim == 1 else b.shape[1]
        if self.parts is None:
            plan = self.numeric.solve(system, count, rhs, x)
            return call.run(plan, (panels, rhs, x))
        wait(call)
        self.parts.solve(system, count, rhs, x)
        return call.run(None)

    def inverse_diagonal(self) -> Any:
        """Compute the diagonal of the permuted matrix's inverse, on the device, in L's dtype."""
        numeric = self.numeric
        call = Call([self.panels], None, self.queue)
        panels = call.input(self.panels, "factor")
        out = call.output((numeric.symbolic.n,), numeric.dtype)
        if self.parts is not None:
            wait(call)
            self.parts.inverse_diagonal(out)
            return call.run(None)
        squares = call.state.workspace(numeric.inverse_bytes)
        place = View(squares, 0, (numeric.inverse_bytes,), (1,), np.dtype(np.uint8))
        return call.run(numeric.inverse(0), (panels, out, place))

    def diagonal(self) -> np.ndarray[Any, Any]:
        """Return the diagonal of L, on the host."""
        if self.parts is not None:
            diagonal: np.ndarray[Any, Any] = self.parts.panels()[self.numeric.diagonal_places()]
            return diagonal
        call = Call([self.panels], None, self.queue)
        panels = call.input(self.panels, "factor")
        out = call.output((self.numeric.symbolic.n,), self.numeric.dtype)
        plan = self.numeric.diagonal() if self.numeric.symbolic.n else None
        return asnumpy(call.run(plan, (panels, out)))

    def on_host(self) -> np.ndarray[Any, Any]:
        """Return all panels, on the host."""
        return asnumpy(self.panels) if self.parts is None else self.parts.panels()

    def close(self) -> None:
        """Free the memory of parts."""
        if self.parts is not None:
            self.parts.close()


def wait(call: Call) -> None:
    """Wait for the events that the call's first kernel depends on."""
    if call.wait_for:
        cl.wait_for_events(call.wait_for)


#: Refinement stops at a backward error of this many units of rounding.
_ENOUGH = 2


# -- residuals in the precision of the matrix


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
