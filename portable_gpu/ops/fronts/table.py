"""The table of the fronts that kernels read, and the storage of their elements.

A front has c own columns and u further rows, m = c + u in all::

              c       u
          +-------+
       c  | L11   .          panel: m x c by rows in the factor; L after the factorisation
          +-------+------+
       u  | L21   | U    .   update: the lower triangle of u x u in an arena, packed
          +-------+------+

The update is stored in rectangular full packed (RFP) form.  The rectangle has w = (u + 1) / 2
columns, by rows.  It holds the first w columns of the triangle from row e on (e is 1 if u is even,
else 0), and above them the remaining triangle, transposed.  So three products with constant strides
compute an update.

Source: Gustavson, Wasniewski, Dongarra and Langou, ACM TOMS 37(2), 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_Int32 = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: The columns of the device's table; each front has one row.
FIELDS = (
    "columns",  # c
    "rows",  # u
    "panel",  # the start of the panel in the factor
    "leading",  # the leading dimension of the panel, in elements
    "update",  # the start of the update in the arena
    "row_start",  # the start of its rows in `row_index` and `relative`
    "first",  # its first column in the permuted matrix
    "child_start",  # the start of its children in `child`
    "child_end",
    "entry_start",  # the start of its entries in `entry_row`, `entry_column` and `entry_source`
    "entry_end",
    "parent",  # -1 for a root
)


@dataclass(frozen=True, eq=False)
class Fronts:
    """The fronts of a factorisation, children before parents.

    Attributes:
        first: The first column of each front in the permuted matrix, followed by n.
        parent: The parent of each front, or -1.
        row_start: The start of each front's rows in ``row_index``, followed by their number.
        row_index: The rows below the own columns, as permuted indices, ascending in a front.
        relative: The index of each of these rows in the parent's front, from 0 on.
        child_start, child: The children of each front, ascending.
        entry_start: The start of each front's matrix entries, followed by their number.
        entry_row, entry_column: The position of each entry in its front; sorted by row, then
            column.
        entry_source: The index of each entry's value in the matrix's values.
        entry_conj: Whether the value is conjugated, since it is from the other triangle.
    """

    first: _Int64
    parent: _Int32
    row_start: _Int64
    row_index: _Int32
    relative: _Int32
    child_start: _Int32
    child: _Int32
    entry_start: _Int64
    entry_row: _Int32
    entry_column: _Int32
    entry_source: _Int64
    entry_conj: np.ndarray[Any, np.dtype[np.bool_]]

    def __repr__(self) -> str:
        return f"<Fronts n={self.first[-1]} in {len(self)} fronts>"

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def columns(self) -> _Int64:
        """The number of own columns of each front."""
        return np.diff(self.first)

    @property
    def rows(self) -> _Int64:
        """The number of further rows of each front."""
        return np.diff(self.row_start)

    def table(self, panel: _Int64, leading: _Int64, update: _Int64) -> _Int64:
        """Build the device's table: a row of :data:`FIELDS` for each front."""
        numbers: dict[str, Any] = {
            "columns": self.columns,
            "rows": self.rows,
            "panel": panel,
            "leading": leading,
            "update": update,
            "row_start": self.row_start[:-1],
            "first": self.first[:-1],
            "child_start": self.child_start[:-1],
            "child_end": self.child_start[1:],
            "entry_start": self.entry_start[:-1],
            "entry_end": self.entry_start[1:],
            "parent": self.parent,
        }
        return np.stack([numbers[name] for name in FIELDS], axis=1).astype(np.int64)
