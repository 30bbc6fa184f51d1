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
        """How it lies, given the strides of the batch axes."""
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
    """Matrices whose batch axes broadcast to ``batch``, with as few batch axes as they need.

    Axes of extent 1 go; neighbours that every matrix strides over as over one become one.

    Returns:
        The extents of the axes that are left, and the operands.
    """
    strides = [_broadcast(one.view, batch) for one in matrices]
    extents: list[int] = []
    kept: list[list[int]] = [[] for _ in matrices]
    for axis, extent in enumerate(batch):
        if extent == 1:
            continue
        follows = extents and all(
            have[-1] == step[axis] * extent for have, step in zip(kept, strides, strict=True)
        )
        if follows:
            extents[-1] *= extent
        else:
            extents.append(extent)
        for have, step in zip(kept, strides, strict=True):
            have[-1 if follows else len(have) :] = [step[axis]]
    return tuple(extents), [one.operand(have) for one, have in zip(matrices, kept, strict=True)]


def _broadcast(view: View, batch: Shape) -> list[int]:
    own, strides = view.shape[:-2], view.strides[:-2]
    missing = len(batch) - len(own)
    return [0] * missing + [
        0 if extent == 1 else step for extent, step in zip(own, strides, strict=True)
    ]
