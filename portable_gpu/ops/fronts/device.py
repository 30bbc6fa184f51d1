"""The fronts of a factorisation on a device: tables, positions, and the operands of all steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts.kernels import TABLES
from portable_gpu.ops.fronts.table import FIELDS, Fronts
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine

_Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: The positions of a factorisation's operands: the matrix's values, the panels, the report, the
#: arena, and the pivot status of each front (see :mod:`portable_gpu.runtime.report`).
VALUES, FACTOR, REPORT, ARENA, PIVOT_STATUS = range(5)
#: The alignment of panels, and of their rows if they are at least this long, in bytes.
ALIGNMENT = 64


@dataclass(frozen=True)
class ElementOf:
    """The problem that the parts of ``factor/tiles`` read: only its element type."""

    elem: Element


class DeviceFronts:
    """Fronts, their positions in the factor and the arena, and their tables on a device.

    Attributes:
        engine, fronts, elem: The engine, the fronts, and the element type of L.
        panel, leading: The start of each front's panel in the factor, and its leading dimension, in
            elements.
        size: Elements of the factor.
        update: The start of each update in the arena, in elements.
        contribution_start: The start of each front's contributions to a solve, in rows.
        arena_bytes, pivot_status_bytes: The sizes of the arena and of the pivot status.
        tables: Buffers, in the order of :data:`~portable_gpu.ops.fronts.kernels.TABLES`.
        kept_bytes: The size of the tables.
    """

    def __init__(
        self,
        engine: Engine,
        fronts: Fronts,
        elem: Element,
        update: _Int64,
        arena: int,
        contribution_start: _Int64,
    ) -> None:
        """Upload the tables.

        Args:
            engine, fronts, elem, update, contribution_start: As the attributes.
            arena: Elements of the arena.
        """
        self.engine, self.fronts, self.elem = engine, fronts, elem
        self.update, self.contribution_start = update, contribution_start
        self.panel, self.leading, self.size = panels(fronts, elem)
        self.arena_bytes, self.pivot_status_bytes = (
            arena_bytes(arena, elem),
            pivot_status_bytes(fronts),
        )
        source = np.where(fronts.entry_conj, ~fronts.entry_source, fronts.entry_source)
        tables: dict[str, Any] = {
            "fronts": fronts.table(self.panel, self.leading, update),
            "row_index": fronts.row_index,
            "relative": fronts.relative,
            "child": fronts.child,
            "entry_row": fronts.entry_row,
            "entry_column": fronts.entry_column,
            "entry_source": source.astype(np.int64),
            "contribution_start": contribution_start,
        }
        self.kept_bytes = table_bytes(fronts)
        self.tables = [engine.upload(tables[name]) for name in TABLES]

    @cached_property
    def contribution_lists(self) -> dict[str, cl.Buffer]:
        """The contributions to each row of the fronts, in the order of the children.

        ``addends_start``: the start of each row's list in ``addends``, followed by its length; row
        i of front s has the number first[s] + row_start[s] + i.  ``addends``: rows of the
        contributions.
        """
        fronts = self.fronts
        columns, rows = fronts.columns, fronts.rows
        begin = np.cumsum(columns + rows) - columns - rows
        has_parent = fronts.parent >= 0
        front = np.repeat(np.flatnonzero(has_parent), rows[has_parent])
        row = np.arange(len(front)) - np.repeat(
            np.cumsum(rows[has_parent]) - rows[has_parent], rows[has_parent]
        )
        target_row = begin[fronts.parent[front]] + fronts.relative[fronts.row_start[front] + row]
        source = self.contribution_start[front] + row
        counts = np.bincount(target_row, minlength=int((columns + rows).sum()))
        tables = {
            "addends_start": np.concatenate([[0], np.cumsum(counts)]),
            "addends": source[np.argsort(target_row, kind="stable")],
        }
        return {name: self.engine.upload(table.astype(np.int32)) for name, table in tables.items()}


def panels(fronts: Fronts, elem: Element) -> tuple[_Int64, _Int64, int]:
    """Compute the panels' starts in the factor, their leading dimensions, and the factor's size."""
    line = ALIGNMENT // elem.itemsize
    columns, rows = fronts.columns, fronts.rows
    leading = np.where(columns < line, columns, -(-columns // line) * line)
    sizes = -(-(columns + rows) * leading // line) * line
    ends = np.cumsum(sizes)
    return ends - sizes, leading, int(ends[-1]) if len(ends) else 0


def arena_bytes(arena: int, elem: Element) -> int:
    """Compute the bytes of an arena of ``arena`` elements."""
    return max(1, arena) * elem.itemsize


def pivot_status_bytes(fronts: Fronts) -> int:
    """Compute the bytes of the pivot status of all fronts."""
    return max(1, len(fronts)) * 16


def table_bytes(fronts: Fronts) -> int:
    """Compute the bytes of the tables that a factorisation has on the device."""
    numbers = len(FIELDS) + 1  # for each front, with `contribution_start`
    lists = fronts.row_index, fronts.relative, fronts.child, fronts.entry_row, fronts.entry_column
    return 8 * (numbers * len(fronts) + len(fronts.entry_source)) + sum(a.nbytes for a in lists)


def update_sizes(fronts: Fronts) -> _Int64:
    """Compute the elements of each update."""
    u = fronts.rows
    return u * (u + 1) // 2


class FrontsPlan(OneLaunch):
    """A launch whose kernel reads the tables of fronts, and further tables of the plan."""

    def __init__(
        self,
        device: DeviceFronts,
        spec: Specialization,
        name: str,
        constants: Mapping[str, Any],
        operands: Sequence[str],
        groups: int,
        size: int,
        further: Mapping[str, np.ndarray[Any, Any] | cl.Buffer] | None = None,
        scratch: int = 0,
        flop: int = 0,
        counters: int = 0,
    ) -> None:
        """Build the kernel.

        Args:
            device: The fronts.
            spec, name: The specialization, and the name of the kernel.
            constants: Scalar arguments that are the same for all calls.
            operands: The names of the operands.
            groups, size: The number of work-groups, and of work-items in each.
            further: Further tables, by their names in the kernel; arrays are uploaded.
            scratch: Bytes of workspace, the kernel's ``scratch``.
            flop, counters: See :class:`OneLaunch`.
        """
        tables = {**(further or {}), **dict(zip(TABLES, device.tables, strict=True))}
        super().__init__(
            device.engine, spec, name, constants, operands, (groups * size,), (size,),
            tables=tables, workspaces={"scratch": scratch}, counters=counters, flop=flop,
        )  # fmt: skip
