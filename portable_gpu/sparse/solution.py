"""The state of a factor, and results from it: solutions, their refinement, the inverse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.linalg.place import Place
from portable_gpu.linalg.refinement import refined_by
from portable_gpu.linalg.views import joined, parts
from portable_gpu.ops.reduce.conversion import converted
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.report import KernelReport
from portable_gpu.runtime.transfer import asnumpy
from portable_gpu.runtime.views import View, new_array
from portable_gpu.sparse.numeric import Numeric
from portable_gpu.sparse.parts import FactorParts
from portable_gpu.sparse.residual import SparseSystem


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
