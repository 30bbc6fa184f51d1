"""The factorisation of block columns on the devices of a group, which the host enqueues.

The columns are assigned to the devices in turns.  Each panel is factorised on its device and
copied to the others, which update their columns.  The next panel is computed first, so that it is
copied under the updates of the other columns.  A column that is still on its way to its device is
updated by all panels so far when it is there::

    panel    | 0 | 1 | 2     |          the columns 3 and 4 come during panel 2,
    column 3 |       | 0 1 2 |          and are updated by the panels 0 to 2,
    column 4 |       | 0 1 2 |          which are kept until then
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any, NamedTuple

import pyopencl as cl

from portable_gpu.errors import NotPositiveDefiniteError
from portable_gpu.multi import moves
from portable_gpu.multi.copying import PendingCopy
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.operands import recorded_kernels
from portable_gpu.ops.factor.api import cholesky as factorise
from portable_gpu.ops.factor.api import solve_triangular
from portable_gpu.ops.gemm import gemm
from portable_gpu.runtime.array import Array


class BlockColumn(NamedTuple):
    """A block column of L on its device: the rows from ``start`` on, of shape (n - start, w)."""

    start: int
    stop: int
    member: Member
    array: Array


class Factorisation:
    """The factorisation of block columns, whose copies to the devices may not have ended."""

    def __init__(
        self,
        columns: Sequence[BlockColumn],
        precision: str | None,
        uploads: Sequence[PendingCopy] = (),
        panels: SimpleQueue[Any] | None = None,
    ) -> None:
        """Note the columns.

        Args:
            columns: The block columns.
            precision: The precision of products.
            uploads: The copy of each column to its device; none if the columns are there.
            panels: Gets each column that is a panel of L when its kernels have ended.
        """
        self._columns, self._precision, self._panels = columns, precision, panels
        self._uploads: list[PendingCopy | None] = [*uploads] or [None] * len(columns)
        self._locks_enqueue = bool(uploads)
        #: The number of panels by which each column is updated.
        self._updates = [0] * len(columns)
        #: The copies of each panel on the devices, until all columns are updated by it.
        self._copies: dict[int, dict[Member, Any]] = {}
        self._memory = _PanelMemory()

    def run(self) -> None:
        """Replace all columns by those of L.

        Raises:
            NotPositiveDefiniteError: A pivot is not positive.
        """
        columns = self._columns
        self._wait_for_column(0)
        panel = self._panel(columns[0])
        for k, column in enumerate(columns):
            _check(panel, column)
            if self._panels is not None:
                self._panels.put((column, panel.done))
            if k + 1 == len(columns):
                break
            self._move(k, panel.below)
            # The next panel, whose end the host waits for, is enqueued before the other updates of
            # its device, and after those of the other devices, which work meanwhile.
            following = columns[k + 1]
            self._wait_for_column(k + 1)
            self._update(k + 1, k + 1)
            others = [j for j in range(k + 2, len(columns)) if self._has_column(j)]
            for j in others:
                if columns[j].member is not following.member:
                    self._update(j, k + 1)
            panel = self._panel(following)
            for j in others:
                if columns[j].member is following.member:
                    self._update(j, k + 1)
            self._free()

    def _move(self, k: int, below: Any) -> None:
        """Copy a panel to the devices that need it."""
        source = self._columns[k].member
        owners = dict.fromkeys(column.member for column in self._columns[k + 1 :])
        if any(self._memory.lacks(member, below.nbytes) for member in owners):
            for j in range(k + 1, len(self._columns)):
                self._wait_for_column(j)
                self._update(j, k)
            self._free()
        self._copies[k] = {
            m: below if m is source else moves.move(source, below, m, self._memory.take(m, below))
            for m in owners
        }

    def _has_column(self, j: int) -> bool:
        """Return whether a column is on its device."""
        upload = self._uploads[j]
        if upload is not None and upload.has_ended:
            self._wait_for_column(j)
        return self._uploads[j] is None

    def _wait_for_column(self, j: int) -> None:
        """Wait until a column is in the queue for copies; later kernels wait for its end."""
        upload, member = self._uploads[j], self._columns[j].member
        if upload is None:
            return
        upload.wait()
        with member.named_errors(), member.engine.staging.enqueue_lock:
            copied = cl.enqueue_marker(member.copies)
            member.copies.flush()
            cl.enqueue_barrier(member.engine.queue, wait_for=[copied])
        self._uploads[j] = None

    def _update(self, j: int, panels: int) -> None:
        """Update a column by all of the first ``panels`` panels that it lacks, in order."""
        column = self._columns[j]
        for k in range(self._updates[j], panels):
            start = self._columns[k].stop
            rows = self._copies[k][column.member][column.start - start :]
            with recorded_kernels(column.member, k), self._enqueue_lock(column.member):
                gemm(
                    rows, rows[: column.stop - column.start], trans_b="C", alpha=-1, beta=1,
                    out=column.array, precision=self._precision, engine=column.member.engine,
                )  # fmt: skip
        self._updates[j] = panels

    def _panel(self, column: BlockColumn) -> _BlockPanel:
        """Factorise a column that has been updated by all panels before it."""
        with self._enqueue_lock(column.member):
            return _panel(column, self._precision)

    def _free(self) -> None:
        """Free the panels by which all later columns are updated."""
        for k in list(self._copies):
            if all(count > k for count in self._updates[k + 1 :]):
                for member, copy in self._copies.pop(k).items():
                    if member is not self._columns[k].member:
                        with self._enqueue_lock(member):
                            self._memory.give_back(member, copy)

    def _enqueue_lock(self, member: Member) -> AbstractContextManager[Any]:
        """Return a lock that is held while kernels are enqueued, if other threads enqueue too."""
        return member.engine.staging.enqueue_lock if self._locks_enqueue else nullcontext()


class _BlockPanel(NamedTuple):
    """A factorised block column.

    Attributes:
        diagonal: Its block on the diagonal.
        below: A copy of the rows below that, or ``None``.
        done: The end of its kernels.
    """

    diagonal: Array
    below: Any
    done: cl.Event


def _panel(column: BlockColumn, precision: str | None) -> _BlockPanel:
    """Factorise a block column that has been updated by all before it."""
    width, engine = column.stop - column.start, column.member.engine
    with recorded_kernels(column.member, column.start):
        top, rest = column.array[:width], column.array[width:]
        diagonal = factorise(top, lower=True, precision=precision, engine=engine)
        top[...] = diagonal
        below = None
        if rest.size:
            below = solve_triangular(
                diagonal, rest, "C", True, side="right", precision=precision, engine=engine
            )
            rest[...] = below
        # What waits for this event waits for no later update.
        done = cl.enqueue_marker(engine.queue)
        if below is not None:
            below.events = [done]
        for report in diagonal.reports if below is None else below.reports:
            report.begin_copy()
        engine.queue.flush()
    return _BlockPanel(diagonal, below, done)


def _check(panel: _BlockPanel, column: BlockColumn) -> None:
    """Wait for the block on the diagonal, and check it.

    Raises:
        NotPositiveDefiniteError: A pivot is not positive.
    """
    try:
        with column.member.named_errors():
            panel.diagonal.check()
    except NotPositiveDefiniteError as error:
        number = column.start + error.column
        raise NotPositiveDefiniteError(
            f"the pivot of column {number} is {error.pivot}; the matrix is not positive definite",
            (),
            number,
            error.pivot,
        ) from None


class _PanelMemory:
    """Memory of devices for copies of panels, which those of later panels take over.

    NVIDIA's driver waits for all kernels of a device where memory is freed, and no other thread
    runs Python code then.
    """

    def __init__(self) -> None:
        """Allocate nothing."""
        self._unused: dict[Member, list[tuple[Array, cl.Event]]] = {}

    def lacks(self, member: Member, nbytes: int) -> bool:
        """Return whether there is no memory for a copy of ``nbytes`` on a device."""
        return member.free < nbytes and self._place(member, nbytes) is None

    def take(self, member: Member, panel: Array) -> Array:
        """Return an array for a copy of a panel."""
        place = self._place(member, panel.nbytes)
        if place is None:
            return member.empty(panel.shape, panel.dtype)
        array, is_read = self._unused[member].pop(place)
        with member.named_errors():
            cl.enqueue_barrier(member.copies, wait_for=[is_read])
        return Array(member.engine.queue, panel.shape, panel.dtype, data=array.base_data)

    def _place(self, member: Member, nbytes: int) -> int | None:
        """Return the place of unused memory of ``nbytes`` at least, if there is some."""
        unused = self._unused.get(member, [])
        large = (k for k, (array, _) in enumerate(unused) if array.base_data.size >= nbytes)
        return next(large, None)

    def give_back(self, member: Member, copy: Array) -> None:
        """Take back memory that only kernels that are enqueued already read."""
        with member.named_errors():
            is_read = cl.enqueue_marker(member.engine.queue)
            member.engine.queue.flush()
        self._unused.setdefault(member, []).append((copy, is_read))
