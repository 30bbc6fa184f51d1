"""From strided views to a GemmProblem: transposes, batch axes, alignment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from portable_gpu.codegen.epilogue import Stage
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import DTypeError, ShapeError, UnsupportedError
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.views import Shape, View
from portable_gpu.targets import Target

DType = np.dtype[Any]


@dataclass
class _Matrices:
    """A view as a stack of logical matrices: extents and strides of batch axes, rows, columns."""

    view: View
    shape: list[int]
    strides: list[int]
    conj: bool = False

    def broadcast(self, batch: Shape) -> None:
        """Give it the batch axes of the result; those that it lacks get stride 0."""
        missing = len(batch) + 2 - len(self.shape)
        shape, strides = [1] * missing + self.shape, [0] * missing + self.strides
        full = [*batch, *shape[-2:]]
        self.strides = [0 if have == 1 else s for have, s in zip(shape, strides, strict=True)]
        self.shape = full

    def operand(self) -> Operand:
        """The kernel's view of it, once the batch axes are merged."""
        *batch, row, col = self.strides
        elem = element(self.view.dtype)
        return Operand(elem, row, col, tuple(batch), self.conj and elem.complex, self._alignment())

    def _alignment(self) -> int:
        *batch, row, col = self.strides
        other = row if col == 1 else col
        itemsize = self.view.dtype.itemsize
        nbytes = math.gcd(self.view.alignment, 16, *(s * itemsize for s in (other, *batch)))
        return nbytes & -nbytes


def bind(
    target: Target,
    a: View,
    b: View,
    c: View,
    *,
    trans_a: str,
    trans_b: str,
    stages: tuple[Stage, ...],
    extras: Sequence[View],
    multiplies: bool,
    reads_c: bool,
    triangle: str = "",
) -> GemmProblem:
    """The problem of views whose shapes fit.  One-dimensional views are vectors, as in matmul.

    Args:
        target: The device.
        a, b, c: Operands and result, as they are stored.
        trans_a, trans_b: N, T or C: how A and B come from ``a`` and ``b``.
        stages, extras: The epilogue and a view for each stage that reads an array.
        multiplies: False where alpha is 0 and A and B are not read.
        reads_c: Whether beta is other than 0.
        triangle: The triangle of C to compute; see :class:`GemmProblem`.

    Raises:
        ShapeError: An epilogue's array does not broadcast to C.
        DTypeError: An epilogue's stage or array does not suit the values.
        UnsupportedError: The product needs double precision, and the device has none.
    """
    compute = compute_element(a.dtype, b.dtype)
    left, right = _matrices(a, trans_a, vector_axis=-2), _matrices(b, trans_b, vector_axis=-1)
    out = _Matrices(c, list(c.shape), list(c.strides))
    if len(a.shape) == 1:
        _insert(out, len(out.shape) - (0 if len(b.shape) == 1 else 1))
    if len(b.shape) == 1:
        _insert(out, len(out.shape))
    *batch, m, n = out.shape
    k = left.shape[-1]
    reading = [stage for stage in stages for _ in stage.reads]
    bound = [
        _extra(view, stage, tuple(out.shape)) for view, stage in zip(extras, reading, strict=True)
    ]
    all_matrices = [left, right, out, *bound]
    for matrices in all_matrices:
        matrices.broadcast(tuple(batch))
    if k == 1:
        left.strides[-1] = right.strides[-2] = 0
    m = _merge_batch(all_matrices, m, stages, bool(triangle))
    for stage in stages:
        stage.check(compute)
    for matrices, stage in zip(bound, reading, strict=True):
        if element(matrices.view.dtype).complex and not compute.complex:
            raise DTypeError(f"epilogue stage {stage.name} has a complex array, C is real")
    problem = GemmProblem(
        m=m,
        n=n,
        k=k if multiplies else 0,
        batch=tuple(out.shape[:-2]),
        a=left.operand(),
        b=right.operand(),
        c=out.operand(),
        compute=compute,
        reads_c=reads_c,
        epilogue=stages,
        extras=tuple(matrices.operand() for matrices in bound),
        triangle=triangle,
    )
    if not target.fp64 and any(e.needs_fp64 for e in (*problem.elements, compute)):
        raise UnsupportedError(
            f"{target.facts.name} has no double precision, which "
            f"{', '.join(str(v.dtype) for v in (a, b, c, *extras))} need; use float32"
        )
    return problem


@lru_cache(maxsize=256)
def result_dtype(a: DType, b: DType) -> DType:
    """NumPy's dtype of ``a @ b``.

    Raises:
        DTypeError: NumPy has no common dtype, or the library does not support it.
    """
    try:
        dtype = np.result_type(a, b)
    except TypeError as error:
        raise DTypeError(f"a is {a} and b is {b}: {error}; convert one of them") from None
    element(dtype)
    return dtype


@lru_cache(maxsize=256)
def compute_element(a: DType, b: DType) -> Element:
    """The element that products are summed in: float32 for 16-bit floats."""
    elem = element(result_dtype(a, b))
    return element(np.float32) if elem.real == "float" and not elem.complex else elem


def _matrices(view: View, trans: str, vector_axis: int) -> _Matrices:
    matrices = _Matrices(view, list(view.shape), list(view.strides), conj=trans == "C")
    if len(view.shape) == 1:
        _insert(matrices, 0 if vector_axis == -2 else 1)
    elif trans != "N":
        for axes in (matrices.shape, matrices.strides):
            axes[-2], axes[-1] = axes[-1], axes[-2]
    return matrices


def _insert(matrices: _Matrices, axis: int) -> None:
    matrices.shape.insert(axis, 1)
    matrices.strides.insert(axis, 0)


def _extra(view: View, stage: Stage, shape: Shape) -> _Matrices:
    matrices = _Matrices(view, list(view.shape), list(view.strides))
    if view.shape and stage.spread != "matrix":
        _insert(matrices, len(view.shape) - (1 if stage.spread == "column" else 0))
    while len(matrices.shape) < 2:
        _insert(matrices, 0)
    own_shape = matrices.shape
    fits = len(own_shape) <= len(shape) and all(
        have in (1, want) for have, want in zip(reversed(own_shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ShapeError(
            f"epilogue stage {stage.name} has an array of shape {tuple(view.shape)}, which does "
            f"not broadcast to C's {shape}"
        )
    row, col = (
        0 if have == 1 else s for have, s in zip(own_shape[-2:], matrices.strides[-2:], strict=True)
    )
    matrices.strides[-2:] = [row, col]
    return matrices


def _merge_batch(
    operands: list[_Matrices], m: int, stages: tuple[Stage, ...], keeps_rows: bool
) -> int:
    """Drop batch axes of extent 1, merge those that stride as one, and fold one into the rows.

    The last happens where B is the same for the whole batch and A's and C's matrices follow each
    other row by row: the stack is then one tall product, unless ``keeps_rows``.  Returns the
    rows of a product.
    """
    out = operands[2]
    axis = len(out.shape) - 3
    while axis >= 0:
        inner = axis + 1
        if out.shape[axis] == 1:
            for x in operands:
                del x.shape[axis], x.strides[axis]
        elif inner < len(out.shape) - 2 and all(
            x.strides[axis] == x.strides[inner] * out.shape[inner] for x in operands
        ):
            for x in operands:
                x.shape[inner] *= x.shape[axis]
                del x.shape[axis], x.strides[axis]
        axis -= 1
    if keeps_rows or len(out.shape) != 3 or any("row" in stage.expression for stage in stages):
        return m
    a, b, *others = operands
    follows = all(x.strides[0] == x.strides[1] * m and m > 1 for x in (a, *others))
    if b.strides[0] != 0 or not follows:
        return m
    m *= out.shape[0]
    for x in operands:
        del x.shape[0], x.strides[0]
    return m
