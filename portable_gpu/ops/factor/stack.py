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
    """The last two axes of a view, and its others as a stack.

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
    def _steps(self) -> list[int]:
        steps = list(self.view.strides[-2:])
        return steps[::-1] if self.trans else steps

    def operand(self, batch: Sequence[int]) -> Operand:
        """Return the operand, given the strides of the batch axes."""
        row, col = self._steps
        elem = element(self.view.dtype)
        return Operand(
            elem, row, col, tuple(batch), self.conj and elem.complex, self._alignment(batch)
        )

    def _alignment(self, batch: Sequence[int]) -> int:
        row, col = self._steps
        size = self.view.dtype.itemsize
        across = row if abs(col) == 1 else col
        steps = (across, *batch)
        nbytes = math.gcd(self.view.alignment, 16, *(abs(s) * size for s in steps))
        return nbytes & -nbytes


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
        follows = extents and all(
            steps[-1] == step[axis] * extent for steps, step in zip(merged, strides, strict=True)
        )
        if follows:
            extents[-1] *= extent
        else:
            extents.append(extent)
        for steps, step in zip(merged, strides, strict=True):
            steps[-1 if follows else len(steps) :] = [step[axis]]
    return tuple(extents), [
        matrix.operand(steps) for matrix, steps in zip(matrices, merged, strict=True)
    ]


def _broadcast(view: View, batch: Shape) -> list[int]:
    batch_extents, strides = view.shape[:-2], view.strides[:-2]
    missing = len(batch) - len(batch_extents)
    return [0] * missing + [
        0 if extent == 1 else step for extent, step in zip(batch_extents, strides, strict=True)
    ]
