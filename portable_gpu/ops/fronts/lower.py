"""The lower triangle of a matrix out of the values that it stores, checked on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts.stages import group_size
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

_Int64 = np.ndarray[Any, np.dtype[np.int64]]
_Int32 = np.ndarray[Any, np.dtype[np.int32]]
#: Elements that a work-item of a CPU takes.
_RUN = 1024


class LowerPlan(OneLaunch):
    """Take the lower triangle, and report whether the host has to check the matrix.

    Operands: the stored values, the triangle's, and an int32 that is 0 before.  It is not 0 after,
    if a value is not finite, two elements that mirror each other differ by more than ``rounding``,
    or an element of the diagonal has an imaginary part of a quarter of that.  Other imaginary parts
    of the diagonal become zeros.
    """

    def __init__(
        self,
        engine: Engine,
        elem: Element,
        rows: tuple[_Int64, _Int32],
        take: _Int64,
        mirror: _Int64 | None,
        stored: int,
        conjugates: bool,
        rounding: float,
    ) -> None:
        """Build the kernel, and bring the indices.

        Args:
            engine: Where it runs.
            elem: Of the values.
            rows: The lower triangle's pointers and columns, as in CSR.
            take, mirror: Which stored value each of its elements is, and the element that mirrors
                it, -1 of one that is not there; without a mirror nothing is compared.
            stored: How many values there are.
            conjugates: Whether the stored triangle is the upper one.
            rounding: See above: as a part of the larger one of two elements, or of the root of the
                product of their rows' diagonal elements.
        """
        target, size = engine.target, group_size(engine.target)
        index = np.dtype(np.int32 if stored < 2**31 else np.int64)
        images = [] if mirror is None else [mirror]
        tables: list[np.ndarray[Any, Any]] = [
            *rows,
            *(each.astype(index) for each in (take, *images)),
        ]
        self._tables = [engine.bring(table) for table in tables]
        self.kept_bytes = sum(table.nbytes for table in tables)
        self.bytes = self.kept_bytes + (stored + len(take)) * elem.itemsize
        run = _RUN if target.is_cpu else 1
        groups = -(-len(take) // (run * size))
        self._launch = engine.programs.launch(
            lower_text(elem, target, bool(images), conjugates, rounding, index.itemsize > 4),
            "lower",
            {"n": len(rows[0]) - 1, "count": len(take), "run": run},
            ["start", "column", "take", *["mirror" for _ in images], "from", "to", "doubt"],
            ["from_offset", "to_offset", "doubt_offset"],
            (groups * size,),
            (size,),
        )

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        return super()._buffers(state, (*self._tables, *operands))


def table_bytes(rows: int, elements: int, stored: int, compares: bool) -> int:
    """Bytes of the tables of a :class:`LowerPlan`."""
    index = 4 if stored < 2**31 else 8
    return 8 * (rows + 1) + elements * (4 + index * (2 if compares else 1))


def lower_text(
    elem: Element,
    target: Target,
    compares: bool,
    conjugates: bool,
    rounding: float,
    is_long: bool = False,
) -> Specialization:
    """The kernel; see :class:`LowerPlan`."""
    return specialize(
        "fronts/lower",
        target,
        e=elem,
        index="long" if is_long else "int",
        compares=compares,
        conjugates=conjugates and elem.complex,
        rounding=f"{rounding!r}{'' if elem.needs_fp64 else 'f'}",
        size=group_size(target),
    )
