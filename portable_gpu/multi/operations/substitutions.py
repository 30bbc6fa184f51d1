"""Forward and back substitution by block columns on the devices of a group.

The right-hand sides move from device to device in the order of the block columns, forward by L and
back by L^H.  They are cut into panels, so that devices work at the same time::

    time           | 0 | 1 | 2 | 3 | ...
    right panel 0  | 0 | 1 | 2 | 3 |       the block column, of which device 0 has 0, 2, ...
    right panel 1  |   | 0 | 1 | 2 |       and device 1 has 1, 3, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.multi import moves, transfers
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.block_columns import BlockColumn
from portable_gpu.multi.operations.operands import recorded_kernels
from portable_gpu.ops.factor.api import solve_triangular
from portable_gpu.ops.gemm import gemm
from portable_gpu.runtime.array import Array

#: The largest number of panels, and the least number of right-hand sides of one.
_MOST_PANELS, _LEAST_WIDTH = 8, 128

_Values = np.ndarray[Any, Any]


def substitute(columns: Sequence[BlockColumn], x: _Values, precision: str | None) -> None:
    """Replace right-hand sides by the solutions.

    Args:
        columns: The block columns of L.
        x: The right-hand sides in NumPy, of shape (n, count).
        precision: The precision of products.
    """
    count = max(1, min(_MOST_PANELS, x.shape[1] // _LEAST_WIDTH))
    bounds = [k * x.shape[1] // count for k in range(count + 1)]
    panels = [
        _SolvedPanel(columns, x[:, start:stop], precision) for start, stop in pairwise(bounds)
    ]
    steps = 2 * len(columns)
    # A step waits for the step of its panel before, which another device may compute.
    for time in range(steps + count - 1):
        for number, panel in enumerate(panels):
            if 0 <= time - number < steps:
                panel.step(time - number)
    for panel in panels:
        panel.store()


class _SolvedPanel:
    """A panel of right-hand sides, and its state: the rows that the next step needs."""

    def __init__(self, columns: Sequence[BlockColumn], x: _Values, precision: str | None) -> None:
        self._columns, self._x, self._precision = columns, x, precision
        # Forward, the rows from the next block column on; back, the solutions of all rows below.
        self._rows: Array | None = None
        self._member: Member | None = None  # the device that has these rows
        #: The rows that each block column has solved forward, which it needs on the way back.
        self._solved: list[Array] = []

    def step(self, number: int) -> None:
        """Enqueue a step with one block column: forward with all in order, then back.

        The call waits for the copy of the rows to the column's device.
        """
        count = len(self._columns)
        if number < count:
            self._forward(self._columns[number])
        else:
            self._back(self._columns[2 * count - 1 - number])

    def store(self) -> None:
        """Copy the solutions to NumPy, and wait."""
        assert self._member is not None
        assert self._rows is not None
        transfers.download(self._member, self._rows, self._x)

    def _forward(self, column: BlockColumn) -> None:
        """Solve the rows of a block column, and subtract their part from the rows below."""
        width, member = column.stop - column.start, column.member
        rows = self._rows_on(member)
        options: dict[str, Any] = {"precision": self._precision, "engine": member.engine}
        with recorded_kernels(member, column.start):
            solved = solve_triangular(column.array[:width], rows[:width], "N", True, **options)
            self._solved.append(member.count(solved))
            below = rows[width:]
            if below.size:
                gemm(column.array[width:], solved, alpha=-1, beta=1, out=below, **options)
        self._set_rows(member, below)

    def _back(self, column: BlockColumn) -> None:
        """Solve the rows of a block column, given the solutions of all rows below."""
        width, member = column.stop - column.start, column.member
        options: dict[str, Any] = {"precision": self._precision, "engine": member.engine}
        top = self._solved.pop()
        rows = member.empty((len(column.array), self._x.shape[1]), self._x.dtype)
        below = self._rows_on(member)
        with recorded_kernels(member, column.start):
            if below.size:
                gemm(column.array[width:], below, trans_a="C", alpha=-1, beta=1, out=top, **options)
                rows[width:] = below
            rows[:width] = solve_triangular(column.array[:width], top, "C", True, **options)
        self._set_rows(member, rows)

    def _rows_on(self, member: Member) -> Array:
        """Return the rows on a device, in memory of their own."""
        if self._member is None or self._rows is None:
            fresh = member.empty(self._x.shape, self._x.dtype)
            transfers.upload(member, self._x, fresh)
            return fresh
        if self._member is not member:
            return moves.move(self._member, self._rows, member)
        # On any number of devices, rows begin where their memory does: kernels may depend on that.
        return self._rows if not self._rows.offset else member.count(self._rows.copy())

    def _set_rows(self, member: Member, rows: Array) -> None:
        """Store the rows and their device; copies of them wait for the kernels so far only."""
        with member.named_errors():
            rows.events = [cl.enqueue_marker(member.engine.queue)]
            member.engine.queue.flush()
        self._member, self._rows = member, rows
