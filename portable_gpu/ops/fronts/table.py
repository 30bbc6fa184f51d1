"""What kernels know of the fronts of a sparse factorisation, and where their numbers lie.

A front has c own columns and u further rows, m = c + u in all::

              c       u
          +-------+
       c  | L11   .          panel: m x c by rows in the factor, L when it is done
          +-------+------+
       u  | L21   | U    .   update: the lower triangle of u x u in an arena, packed
          +-------+------+

The packed form is the rectangular full one: R has w = (u + 1) / 2 columns, by rows, and holds the
first w columns of the triangle from row e on (e is 1 where u is even, else 0); what is right of
them stands above, transposed.  So three products of constant strides make an update.

Source: Gustavson, Wasniewski, Dongarra and Langou, ACM TOMS 37(2), 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_Int32 = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: The numbers of a front, in the order in which a row of the device's table has them.
FIELDS = (
    "columns",  # c
    "rows",  # u
    "panel",  # where the panel begins in the factor
    "leading",  # elements from a row of the panel to the next
    "update",  # where the update begins in the arena
    "row_start",  # where its rows begin in `row_index` and `relative`
    "first",  # its first column in the permuted matrix
    "child_start",  # where its children begin in `child`
    "child_end",
    "entry_start",  # where its entries begin in `entry_row` and its neighbours
    "entry_end",
    "parent",  # -1 of a root
)


@dataclass(frozen=True, eq=False)
class Fronts:
    """The fronts of a factorisation, children before parents.

    Attributes:
        first: Of each front its first column in the permuted matrix, and n at the end.
        parent: Of each its parent, or -1.
        row_start: Where the rows of each begin in ``row_index``, and their number at the end.
        row_index: The rows below the own columns, as permuted indices, ascending in a front.
        relative: Where each of these rows stands in the parent's front, from 0 on.
        child_start, child: The children of each front, ascending.
        entry_start: Where the matrix's entries of each front begin, and their number at the end.
        entry_row, entry_column: Their places in the front; by rows, then columns.
        entry_source: Which of the matrix's values each is.
        entry_conj: Whether its conjugate is meant: it comes from the other triangle.
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
        """Own columns of each."""
        return np.diff(self.first)

    @property
    def rows(self) -> _Int64:
        """Further rows of each."""
        return np.diff(self.row_start)

    def table(self, panel: _Int64, leading: _Int64, update: _Int64) -> _Int64:
        """The device's table: a row of :data:`FIELDS` for each front."""
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


def packed_size(u: int) -> int:
    """Elements of a packed triangle."""
    return u * (u + 1) // 2


def packed_place(i: Any, j: Any, u: int) -> Any:
    """Where (i, j), i >= j, of a packed triangle of u rows lies."""
    w, e = (u + 1) // 2, 1 - u % 2
    return np.where(np.less(j, w), (i + e) * w + j, (j - w) * w + i - w + 1 - e)


def unpacked(packed: Any, u: int) -> Any:
    """The triangle as a square with zeros above: for tests and for people."""
    full = np.zeros((u, u), packed.dtype)
    i, j = np.tril_indices(u)
    full[i, j] = packed[packed_place(i, j, u)]
    return full
