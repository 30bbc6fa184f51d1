"""From strided views to stacks of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from portable_gpu.dtypes import element
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.views import Shape, View


@dataclass(frozen=True)
class Matrix:
    """A view as a stack of matrices, whose rows and columns are its last two axes.

    Attributes:
        view: The view.
        trans: Whether rows and columns are exchanged.
        conj: Whether elements are conjugated.
    """

    view: View
    trans: bool = False
    conj: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.view.shape[-2:]
        return (columns, rows) if self.trans else (rows, columns)

    @property
    def _strides(self) -> list[int]:
        """The strides of rows and columns."""
        strides = list(self.view.strides[-2:])
        return strides[::-1] if self.trans else strides

    def operand(self, batch_strides: Sequence[int]) -> Operand:
        """Return the operand of a product, given the strides of the batch axes."""
        row, col = self._strides
        elem = element(self.view.dtype)
        return Operand(
            elem,
            row,
            col,
            tuple(batch_strides),
            self.conj and elem.complex,
            self._alignment(batch_strides),
        )

    def _alignment(self, batch_strides: Sequence[int]) -> int:
        """The power of two, at most 16, that divides the addresses of all rows (or columns)."""
        row, col = self._strides
        itemsize = self.view.dtype.itemsize
        strides = (row if abs(col) == 1 else col, *batch_strides)
        nbytes = math.gcd(self.view.alignment, 16, *(abs(s) * itemsize for s in strides))
        return nbytes & -nbytes  # the lowest bit


def stacked(matrices: Sequence[Matrix], batch: Shape) -> tuple[Shape, list[Operand]]:
    """Broadcast the batch axes of matrices to ``batch``, and merge these axes.

    Axes of extent 1 are dropped; adjacent axes are merged if every matrix allows it.

    Returns:
        The extents of the merged axes, and the operands.
    """
    strides = [_broadcast(matrix.view, batch) for matrix in matrices]
    extents: list[int] = []
    merged: list[list[int]] = [[] for _ in matrices]
    for axis, extent in enumerate(batch):
        if extent == 1:
            continue
        axis_strides = [of_matrix[axis] for of_matrix in strides]
        if extents and all(
            outer[-1] == inner * extent for outer, inner in zip(merged, axis_strides, strict=True)
        ):
            extents[-1] *= extent
            for outer, inner in zip(merged, axis_strides, strict=True):
                outer[-1] = inner
        else:
            extents.append(extent)
            for outer, inner in zip(merged, axis_strides, strict=True):
                outer.append(inner)
    return tuple(extents), [
        matrix.operand(of_matrix) for matrix, of_matrix in zip(matrices, merged, strict=True)
    ]


def _broadcast(view: View, batch: Shape) -> list[int]:
    """Return the strides of the batch axes; 0 for axes that a view lacks or repeats."""
    batch_extents, strides = view.shape[:-2], view.strides[:-2]
    missing = len(batch) - len(batch_extents)
    return [0] * missing + [
        0 if extent == 1 else stride for extent, stride in zip(batch_extents, strides, strict=True)
    ]
