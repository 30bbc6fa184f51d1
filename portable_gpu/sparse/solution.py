"""Solutions by a factor, and their refinement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import ArgumentError
from portable_gpu.linalg.place import Place
from portable_gpu.linalg.refinement import refined_by
from portable_gpu.linalg.views import joined, parts
from portable_gpu.ops.reduce.run import converted
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.views import new_array
from portable_gpu.sparse.numeric import Numeric
from portable_gpu.sparse.out_of_core import SpilledFactor
from portable_gpu.sparse.residual import SparseSystem


@dataclass(frozen=True)
class Held:
    """What a factor holds at a time.

    Attributes:
        numeric, queue: The plans, and where they run.
        values: The lower triangle's values, on the device.
        factor: The panels, if they are all there.
        spilled: The panels, if most of them are on the disk.
    """

    numeric: Numeric
    queue: cl.CommandQueue
    values: Any
    factor: Any
    spilled: SpilledFactor | None

    def solve(self, b: Any, dtype: np.dtype[Any], system: str, refine: str | int | None) -> Any:
        """The solution of an array on the device.

        Args:
            b: Shape (n,) or (n, k).
            dtype: Of the solution.
            system: As ``Factor.solve`` takes it.
            refine: Corrections of system ``A``.
        """
        if not b.size:
            return new_array(state_for([b], None, self.queue), self.queue, tuple(b.shape), dtype)
        if dtype.kind == "c" and self.numeric.dtype.kind != "c":  # each part by itself
            real = np.empty(0, dtype).real.dtype
            split = parts(converted(b, dtype, queue=self.queue))
            x = self.solve(split.reshape(b.shape[0], -1), real, system, refine)
            return joined(x.reshape(split.shape))
        if not refine:
            return self._by_factor(b, dtype, system)
        if b.dtype != dtype:
            b = converted(b, dtype, queue=self.queue)
        matrix = SparseSystem(self.numeric, self.values, self.queue, dtype)

        def solved(r: Any) -> Any:
            return self._by_factor(r, dtype, system)

        return refined_by(matrix, b, solved, refine, Place(None, self.queue))[0]

    def _by_factor(self, b: Any, dtype: np.dtype[Any], system: str) -> Any:
        call = Call([b, self.factor], None, self.queue)
        factor, given = call.input(self.factor, "factor"), call.input(b, "b")
        x = call.output(tuple(b.shape), dtype)
        count = 1 if b.ndim == 1 else b.shape[1]
        if len(self.numeric.schedule.chunks) == 1:
            plan = self.numeric.solve(system, count, given, x)
            return call.run(plan, (factor, given, x))
        if self.spilled is None:
            raise ArgumentError("the factor has no values; call refactorize")
        wait(call)
        self.spilled.solve(system, count, given, x)
        return call.run(None)


def wait(call: Call) -> None:
    """Wait for what the call's first kernel would have to wait for."""
    if call.wait_for:
        cl.wait_for_events(call.wait_for)
