"""The fronts of a factorisation on a device: tables, places, and the operands of all steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts.table import FIELDS, Fronts
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState

_Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: The operands of a factorisation by their positions: the matrix's values, the panels, the report,
#: the arena, and what each front tells of its pivots (see :mod:`portable_gpu.runtime.report`).
VALUES, FACTOR, REPORT, ARENA, PIVOT_STATUS = range(5)
#: Bytes that a panel begins at a multiple of, and its rows where they are long.
ALIGNMENT = 64
#: The tables by the names that kernels have for them.
TABLES = (
    "fronts",
    "row_index",
    "relative",
    "child",
    "entry_row",
    "entry_column",
    "entry_source",
    "started",
)


@dataclass(frozen=True)
class Of:
    """What the parts of ``factor/tiles`` know of the problem that they work on."""

    elem: Element


class DeviceFronts:
    """Fronts, where their numbers lie, and their tables on a device.

    Attributes:
        engine, fronts, elem: What they are, and where.
        panel, leading: Of each front where its panel begins in the factor, and elements from row to
            row.
        size: Elements of the factor.
        update: Where each update begins in the arena.
        started: Where the contributions of each to a solve begin, in rows.
        arena_bytes, told_bytes: Sizes of the arena, and of what fronts tell.
        tables: Buffers, in the order of :data:`TABLES`.
        kept_bytes: Their size.
    """

    def __init__(
        self,
        engine: Engine,
        fronts: Fronts,
        elem: Element,
        update: _Int64,
        arena: int,
        started: _Int64,
    ) -> None:
        """Bring the tables.

        Args:
            engine, fronts, elem, update, started: As the attributes.
            arena: Elements of the arena.
        """
        self.engine, self.fronts, self.elem = engine, fronts, elem
        self.update, self.started = update, started
        self.panel, self.leading, self.size = panels(fronts, elem)
        self.arena_bytes, self.pivot_status_bytes = (
            arena_bytes(arena, elem),
            pivot_status_bytes(fronts),
        )
        source = np.where(fronts.entry_conj, ~fronts.entry_source, fronts.entry_source)
        found: dict[str, Any] = {
            "fronts": fronts.table(self.panel, self.leading, update),
            "row_index": fronts.row_index,
            "relative": fronts.relative,
            "child": fronts.child,
            "entry_row": fronts.entry_row,
            "entry_column": fronts.entry_column,
            "entry_source": source.astype(np.int64),
            "started": started,
        }
        self.kept_bytes = table_bytes(fronts)
        self.tables = [engine.bring(found[name]) for name in TABLES]

    @cached_property
    def taken(self) -> dict[str, cl.Buffer]:
        """Which contributions each row of the fronts takes, in the children's order.

        ``taken_start``: where those of row i of front s begin in ``taken``, at first[s] +
        row_start[s] + i, and their number at the end.  ``taken``: their rows of all contributions.
        """
        fronts = self.fronts
        columns, rows = fronts.columns, fronts.rows
        begin = np.cumsum(columns + rows) - columns - rows
        has = fronts.parent >= 0
        front = np.repeat(np.flatnonzero(has), rows[has])
        row = np.arange(len(front)) - np.repeat(np.cumsum(rows[has]) - rows[has], rows[has])
        to = begin[fronts.parent[front]] + fronts.relative[fronts.row_start[front] + row]
        source = self.started[front] + row
        counts = np.bincount(to, minlength=int((columns + rows).sum()))
        found = {
            "taken_start": np.concatenate([[0], np.cumsum(counts)]),
            "taken": source[np.argsort(to, kind="stable")],
        }
        return {name: self.engine.bring(one.astype(np.int32)) for name, one in found.items()}


def panels(fronts: Fronts, elem: Element) -> tuple[_Int64, _Int64, int]:
    """Where panels begin in the factor, elements from row to row of each, and of them all."""
    line = ALIGNMENT // elem.itemsize
    columns, rows = fronts.columns, fronts.rows
    leading = np.where(columns < line, columns, -(-columns // line) * line)
    taken = -(-(columns + rows) * leading // line) * line
    ends = np.cumsum(taken)
    return ends - taken, leading, int(ends[-1]) if len(ends) else 0


def arena_bytes(arena: int, elem: Element) -> int:
    """Bytes of the arena of so many elements."""
    return max(1, arena) * elem.itemsize


def pivot_status_bytes(fronts: Fronts) -> int:
    """Bytes of what fronts tell."""
    return max(1, len(fronts)) * 16


def table_bytes(fronts: Fronts) -> int:
    """Bytes of the tables that a factorisation has on the device."""
    numbers = len(FIELDS) + 1  # of each front, with where it has started
    lists = fronts.row_index, fronts.relative, fronts.child, fronts.entry_row, fronts.entry_column
    return 8 * (numbers * len(fronts) + len(fronts.entry_source)) + sum(a.nbytes for a in lists)


def update_sizes(fronts: Fronts) -> _Int64:
    """Elements of the updates."""
    u = fronts.rows
    return u * (u + 1) // 2


class FrontsPlan(OneLaunch):
    """A launch whose kernel reads the tables of fronts, and some more that it keeps."""

    def __init__(
        self,
        device: DeviceFronts,
        text: Specialization,
        name: str,
        constants: Mapping[str, Any],
        operands: Sequence[str],
        groups: int,
        size: int,
        kept: Mapping[str, np.ndarray[Any, Any] | cl.Buffer] | None = None,
        scratch: int = 0,
        flop: int = 0,
        counters: int = 0,
    ) -> None:
        """Build the kernel.

        Args:
            device: Whose tables.
            text, name: The kernel.
            constants: Scalars that stay.
            operands: Names of what calls give.
            groups, size: Work-groups, and work-items of each.
            kept: Further tables, by their names in the kernel; those that the device has are its.
            scratch: Bytes of workspace, the kernel's ``scratch``.
            flop: Operations of the launch.
            counters: How many zeroed counters it needs, the kernel's ``ready``, and leaves at zero.
        """
        kept = kept or {}
        self.flop, self.workspace_bytes, self._counters = flop, scratch, counters
        ready = ["ready"] if counters else []
        bring = device.engine.bring
        own = [bring(one) if isinstance(one, np.ndarray) else one for one in kept.values()]
        self._tables = [*own, *device.tables]
        self.kept_bytes = sum(one.nbytes for one in kept.values() if isinstance(one, np.ndarray))
        self._launch = device.engine.programs.launch(
            text, name, constants,
            [*(["scratch"] if scratch else []), *kept, *TABLES, *operands, *ready],
            [f"{one}_offset" for one in operands], (groups * size,), (size,),
        )  # fmt: skip

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        ready = [state.fold_space(self._counters, 0)[0]] if self._counters else []
        return super()._buffers(state, (*self._tables, *operands, *ready))
