"""Factors and solves of matrices of different sizes: a list of arrays, or matrices in one buffer.

Small matrices take one launch for each class of sizes.  Each large matrix has its own plan, which
splits it recursively in halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of
from portable_gpu.dtypes import element, requested_precision
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ShapeError,
    reraise_of_signal,
)
from portable_gpu.ops.factor.arguments import CHECKS, check_dtype, precision_of, transposition
from portable_gpu.ops.factor.copies import CopyProblem, copy_plan
from portable_gpu.ops.factor.packed_steps import placed
from portable_gpu.ops.factor.ragged import CLASSES, RaggedMatrices, ragged_zeros
from portable_gpu.ops.factor.reports import not_positive_definite, report_spec, singular
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.factor.variants import make_ragged_cholesky, make_ragged_solve
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.operation import Invocation, complete
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Part, Plan, Step, Steps
from portable_gpu.runtime.views import AnyArray, View, as_array

__all__ = ["Ragged", "cho_solve", "cholesky", "solve_triangular"]


def cholesky(
    a: Ragged | Sequence[AnyArray],
    lower: bool = False,
    overwrite_a: bool = False,
    *,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the Cholesky factors of matrices of different sizes.

    Args:
        a: A list of square matrices, all of NumPy or all of a device, or a :class:`Ragged`.
        lower: Whether the factors are L; else U.
        overwrite_a: Store the factors in the buffer of a :class:`Ragged`.
        check, precision, engine, queue, wait_for: As in :func:`portable_gpu.linalg.cholesky`.

    Returns:
        For a list, a list of views of one fresh buffer, with zeros in the other triangles.  For a
        :class:`Ragged`, another one, with the same buffer or a copy of it; the other triangles are
        unchanged.

    Raises:
        NotPositiveDefiniteError: ``index`` is the index of the matrix.
        ShapeError, DTypeError, ArgumentError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.cholesky`.

    Cost: ``n^3 / 3`` flop for each matrix.  A plan is made for the sizes and offsets; later calls
        with the same (:meth:`Ragged.like`) do no work on the host for each matrix.
    """
    lower, overwrite = flag(lower, "lower"), flag(overwrite_a, "overwrite_a")
    one_of(check, CHECKS, "check")
    place = engine, queue, events_of(wait_for)
    if not isinstance(a, Ragged):
        if overwrite:
            raise ArgumentError("overwrite_a is for a Ragged; a list's matrices are copied")
        gathered = gather(a, "a", lower, *place)
        return listed(cholesky(gathered, lower=lower, overwrite_a=True, check=check,
                                precision=precision, engine=engine, queue=queue))  # fmt: skip
    _check_square(a)
    buffer = a.buffer
    requested_precision(precision)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view, products = views[-1], precision_of(precision, engine)

        def make() -> Plan:
            steps = make_ragged_cholesky(engine, a._matrices(view), lower, products)
            if overwrite:
                return Steps(steps)
            return Steps([_copy(engine, views, 0, 1), *placed(steps, (1, 2))])

        return engine.plan(
            ("ragged cholesky", lower, overwrite, products, *a._plan_key(view)), make
        )

    count = (len(a),)
    asked = Invocation(
        inputs=() if overwrite else (buffer,),
        names=() if overwrite else ("a",),
        shape=buffer.shape,
        dtype=buffer.dtype,
        plan=plan,
        out=buffer if overwrite else None,
        out_name="a",
        reads_out=overwrite,
        report=report_spec(count, not_positive_definite(count, buffer.dtype)),
        check=check,
    )
    return a.like(complete(asked, None, (), *place))


def solve_triangular(
    a: Ragged | Sequence[AnyArray],
    b: Ragged | Sequence[AnyArray],
    trans: int | str = "N",
    lower: bool = False,
    unit_diagonal: bool = False,
    *,
    overwrite_b: bool = False,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``op(A) X = B`` for triangles of different sizes.

    Args:
        a: A list of square matrices, or a :class:`Ragged`.
        b: A list of matrices or vectors, one for each of ``a``, or a :class:`Ragged`; of the dtype
            of ``a``.
        trans, lower, unit_diagonal, check, precision, engine, queue, wait_for: As in
            :func:`portable_gpu.linalg.solve_triangular`.
        overwrite_b: Store X in the buffer of a :class:`Ragged`.

    Returns:
        For a list, a list; for a :class:`Ragged`, another one, as in :func:`cholesky`.

    Raises:
        SingularMatrixError: ``index`` is the index of the matrix.
        ShapeError, DTypeError, ArgumentError, OverlapError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.solve_triangular`.
    """
    op, lower = transposition(trans), flag(lower, "lower")
    solves = ((op != "N", op == "C", flag(unit_diagonal, "unit_diagonal")),)
    place = engine, queue, events_of(wait_for)
    return _solve(a, b, lower, solves, overwrite_b, check, precision, *place)


def cho_solve(
    a: Ragged | Sequence[AnyArray],
    b: Ragged | Sequence[AnyArray],
    lower: bool = False,
    *,
    overwrite_b: bool = False,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``A X = B``, given Cholesky factors of different sizes.

    Args, Returns, Raises: As in :func:`solve_triangular`; ``a`` is the result of :func:`cholesky`.
    """
    lower = flag(lower, "lower")
    first, second = (False, False, False), (True, True, False)
    solves = (first, second) if lower else (second, first)
    place = engine, queue, events_of(wait_for)
    return _solve(a, b, lower, solves, overwrite_b, check, precision, *place)


def _solve(
    a: Any,
    b: Any,
    lower: bool,
    solves: tuple[tuple[bool, bool, bool], ...],
    overwrite: Any,
    check: str,
    precision: str | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Solve one or two triangular systems in turn.

    Each of ``solves`` is: whether it is transposed, conjugated, and has a unit diagonal.
    """
    overwrite = flag(overwrite, "overwrite_b")
    one_of(check, CHECKS, "check")
    place = engine, queue, events_of(wait_for)
    if not isinstance(b, Ragged):
        if overwrite:
            raise ArgumentError("overwrite_b is for a Ragged; a list's matrices are copied")
        triangles = a if isinstance(a, Ragged) else gather(a, "a", None, *place)
        gathered = gather(b, "b", None, *place)
        solution = _solve(triangles, gathered, lower, solves, True, check, precision, *place)
        return [_shaped(matrix, x.shape) for matrix, x in zip(listed(solution), b, strict=True)]
    if not isinstance(a, Ragged):
        a = gather(a, "a", None, *place)
    _check_square(a)
    _check_pairs(a, b)
    requested_precision(precision)
    reads = not solves[0][2]

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view_a, view, products = views[0], views[-1], precision_of(precision, engine)
        x = len(views) - 1

        def make() -> Plan:
            matrices, right_sides = a._matrices(view_a), b._matrices(view)
            steps = [] if overwrite else [_copy(engine, views[1:], 1, 2)]
            for transposed, conj, unit in solves:
                made = make_ragged_solve(
                    engine, matrices, right_sides, lower, transposed, conj, unit, products
                )
                steps.extend(placed(made, (0, x)))
            if reads:
                steps[:0] = placed([ragged_zeros(engine, matrices)], (0, x, x + 1))
            return Steps(steps)

        sizes = *a._plan_key(view_a), *b._plan_key(view)
        key = "ragged solve", lower, solves, overwrite, products, *sizes
        return engine.plan(key, make)

    count = (len(a),)
    asked = Invocation(
        inputs=(a.buffer,) if overwrite else (a.buffer, b.buffer),
        names=("a",) if overwrite else ("a", "b"),
        shape=b.buffer.shape,
        dtype=b.buffer.dtype,
        plan=plan,
        out=b.buffer if overwrite else None,
        out_name="b",
        reads_out=overwrite,
        report=report_spec(count, singular(count)) if reads else None,
        check=check,
    )
    return b.like(complete(asked, None, (), *place))


# -- arguments


def _check_square(a: Ragged) -> None:
    wrong = np.flatnonzero(a.rows != a.columns)
    if wrong.size:
        k = int(wrong[0])
        raise ShapeError(f"matrix {k} of a is {a.rows[k]} x {a.columns[k]}; square ones are needed")


def _check_pairs(a: Ragged, b: Ragged) -> None:
    if len(a) != len(b):
        raise ShapeError(f"a has {len(a)} matrices and b {len(b)}")
    wrong = np.flatnonzero(a.rows != b.rows)
    if wrong.size:
        k = int(wrong[0])
        raise ShapeError(f"matrix {k} of a has {a.rows[k]} rows, that of b {b.rows[k]}")
    if len(a) and a.buffer.dtype != b.buffer.dtype:  # an empty list has none
        raise DTypeError(f"a is {a.buffer.dtype} and b {b.buffer.dtype}; convert one of them")


def _copy(engine: Engine, views: Sequence[View], source: int, target: int) -> Step:
    """Return the step that copies one buffer into another."""
    elem = element(views[0].dtype)
    line = Operand(elem, 0, 1)
    return Step(copy_plan(engine, CopyProblem(1, views[0].size, (), line, line)), (source, target))


def _shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """Reshape a matrix of one column into a vector, if ``shape`` is that of a vector."""
    if array.shape == shape:
        return array
    result = array.reshape(shape)
    if isinstance(result, Array):
        result.reports = array.reports
    return result


_Numbers = np.ndarray[Any, np.dtype[np.int64]]


# -- the matrices


class Ragged:
    """Matrices of different sizes in one buffer, by rows.

    Matrices that a call writes must not overlap.  Elements between them are not changed.

    Attributes:
        buffer: The array of one axis that holds them, of NumPy or of a device.
        rows, columns: The extents of each matrix.
        offsets: The index of each matrix's first element in the buffer.
        leading: The elements from one row to the next, of each matrix (BLAS's leading dimension).
    """

    def __init__(
        self,
        buffer: AnyArray,
        sizes: Sequence[int],
        offsets: Sequence[int] | None = None,
        leading: Sequence[int] | int | None = None,
        columns: Sequence[int] | int | None = None,
    ) -> None:
        """Describe the matrices.

        Args:
            buffer: Shape (size,), of adjacent elements.
            sizes: The number of rows of each matrix.
            offsets: The first element of each matrix.  Default: each follows the one before it.
            leading: Elements from row to row, of each matrix or of all.  Default: ``columns``.
            columns: The number of columns of each matrix or of all.  Default: ``sizes``.

        Raises:
            ShapeError: The buffer does not have one axis, or is too small for a matrix.
            ArgumentError: Numbers that are negative, no integers, or too few; a buffer with a
                stride.
        """
        array = as_array(buffer, "buffer")
        check_dtype(array.dtype, "buffer")
        self.rows = _numbers(sizes, "sizes", None)
        count = len(self.rows)
        self.columns = self.rows if columns is None else _numbers(columns, "columns", count)
        self.leading = self.columns if leading is None else _numbers(leading, "leading", count)
        sizes_in_buffer = self.rows * self.leading
        if offsets is None:
            self.offsets = np.cumsum(sizes_in_buffer) - sizes_in_buffer
        else:
            self.offsets = _numbers(offsets, "offsets", count)
        numbers = np.stack((self.rows, self.columns, self.offsets, self.leading))
        self._key = count, sha256(numbers.tobytes()).digest()  # plans store this small key
        narrow = np.flatnonzero((self.leading < self.columns) & (self.rows > 1))
        if narrow.size:
            k = int(narrow[0])
            raise ArgumentError(
                f"leading[{k}] is {self.leading[k]}; matrix {k} has {self.columns[k]} columns"
            )
        is_not_empty = (self.rows > 0) & (self.columns > 0)
        ends = np.where(
            is_not_empty, self.offsets + (self.rows - 1) * self.leading + self.columns, 0
        )
        self._end, self._last = (int(ends.max()), int(ends.argmax())) if count else (0, 0)
        self.buffer = self._checked(array)

    def like(self, buffer: AnyArray) -> Ragged:
        """Return matrices of the same sizes and offsets in another buffer; tables are shared.

        Raises:
            ShapeError, ArgumentError, DTypeError: As the constructor.
        """
        other = object.__new__(Ragged)
        other.__dict__.update(self.__dict__)
        array = as_array(buffer, "buffer")
        check_dtype(array.dtype, "buffer")
        other.buffer = self._checked(array)
        return other

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: int) -> Any:
        """A view of one matrix."""
        if not -len(self) <= which < len(self):
            raise IndexError(f"matrix {which} of {len(self)}")
        n, m = int(self.rows[which]), int(self.columns[which])
        start, ld = int(self.offsets[which]), int(self.leading[which])
        if not n * m:
            return self.buffer[:0].reshape(n, m)
        size, array = self.buffer.dtype.itemsize, self.buffer
        if isinstance(array, np.ndarray):
            if ld == m or n == 1:
                return array[start : start + n * m].reshape(n, m)
            part = array[start : start + (n - 1) * ld + m]
            return np.lib.stride_tricks.as_strided(part, (n, m), (ld * size, size))
        kind = type(array)
        view = kind(
            array.queue, (n, m), array.dtype, data=array.base_data, strides=(ld * size, size),
            offset=array.offset + start * size, events=array.events,
        )  # fmt: skip
        if isinstance(view, Array):
            view.reports = getattr(array, "reports", ())
        return view

    def _checked(self, array: Any) -> Any:
        if array.ndim != 1:
            raise ShapeError(f"buffer has shape {tuple(array.shape)}; one axis is needed")
        if array.size > 1 and array.strides[0] != array.dtype.itemsize:
            raise ArgumentError(f"buffer has a stride of {array.strides[0]} bytes; copy it first")
        if self._end > array.size:
            k = self._last
            raise ShapeError(
                f"buffer has {array.size} elements; by sizes, columns, offsets and leading, matrix "
                f"{k} ({self.rows[k]} x {self.columns[k]}, a row each {self.leading[k]}, from "
                f"{self.offsets[k]} on) ends at {self._end}"
            )
        return array

    def _matrices(self, view: View) -> RaggedMatrices:
        elem = element(view.dtype)
        return RaggedMatrices(
            elem, self.rows, self.columns, self.offsets, self.leading, min(16, view.alignment)
        )

    def _plan_key(self, view: View) -> tuple[Any, ...]:
        """Return the part of a plan's key that describes the matrices."""
        return (*self._key, view.dtype, view.size, min(16, view.alignment))


def _numbers(values: Any, name: str, count: int | None) -> _Numbers:
    try:
        result = np.asarray(values)
    except Exception as error:  # raised by the value's own methods, too
        reraise_of_signal(error)
        raise ArgumentError(f"{name} is not a list of integers: {error}") from error
    if result.size == 0:
        result = result.astype(np.int64)
    if result.dtype.kind not in "iu" or result.ndim > 1 or (count is None and result.ndim == 0):
        raise ArgumentError(f"{name} is {result.dtype} of {result.ndim} axes; integers are needed")
    result = result.astype(np.int64)
    if count is not None and result.ndim == 0:
        result = np.full(count, result)
    if count is not None and len(result) != count:
        raise ArgumentError(f"{name} has {len(result)} numbers for {count} matrices")
    if result.size and result.min() < 0:
        raise ArgumentError(f"{name} has a negative number, {result.min()}")
    return result


def gather(
    arrays: Any,
    name: str,
    lower: bool | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Ragged:
    """Copy a list's matrices into one fresh buffer: one triangle of each, or all if it is None."""
    if isinstance(arrays, (np.ndarray, *DEVICE_KINDS)) or not isinstance(arrays, Sequence):
        raise ArgumentTypeError(
            f"{name} is a {type(arrays).__name__}; a list of matrices is needed"
        )
    matrices = [as_array(matrix, f"{name}[{k}]") for k, matrix in enumerate(arrays)]
    for k, matrix in enumerate(matrices):
        check_dtype(matrix.dtype, f"{name}[{k}]")
        if matrix.ndim not in ((1, 2) if name == "b" else (2,)):
            raise ShapeError(f"{name}[{k}] has shape {tuple(matrix.shape)}; a matrix is needed")
        if name == "a" and matrix.shape[0] != matrix.shape[1]:
            raise ShapeError(f"a[{k}] has shape {tuple(matrix.shape)}; square matrices are needed")
        if matrix.dtype != matrices[0].dtype:
            raise DTypeError(f"{name}[{k}] is {matrix.dtype} and {name}[0] {matrices[0].dtype}")
    on_device = [isinstance(matrix, DEVICE_KINDS) for matrix in matrices]
    if any(on_device) and not all(on_device):
        raise ArgumentTypeError(f"{name} has arrays of NumPy and arrays of a device; use one kind")
    shapes = [matrix.shape if matrix.ndim == 2 else (matrix.shape[0], 1) for matrix in matrices]
    rows, columns = [n for n, _ in shapes], [m for _, m in shapes]
    dtype = matrices[0].dtype if matrices else np.dtype(np.float64)
    if not any(on_device):
        triangles = [matrix if lower is None else _half(matrix, lower) for matrix in matrices]
        flat = [matrix.reshape(-1) for matrix in triangles]
        return Ragged(np.concatenate(flat) if flat else np.zeros(0, dtype), rows, columns=columns)
    starts = np.cumsum([0, *(n * m for n, m in shapes)])

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        *inputs, _ = views

        def make() -> Plan:
            steps = []
            for k, ((n, m), view) in enumerate(zip(shapes, inputs, strict=True)):
                if not n * m:
                    continue
                matrix = view if len(view.shape) == 2 else _column(view)
                _, (source,) = stacked([Matrix(matrix, trans=lower is False)], ())
                row, col = (1, m) if lower is False else (m, 1)
                target = Operand(element(dtype), row, col)
                copy = CopyProblem(n, m, (), source, target, triangle=lower is not None)
                part = engine.plan(("copy", copy), partial(copy_plan, engine, copy))
                steps.append(Step(part, (k, Part(len(inputs), int(starts[k])))))
            return Steps(steps)

        layouts = tuple((v.dtype, v.shape, v.strides) for v in inputs)
        return engine.plan(("gather", lower, layouts), make)

    asked = Invocation(
        inputs=tuple(matrices),
        names=tuple(f"{name}[{k}]" for k in range(len(matrices))),
        shape=(int(starts[-1]),),
        dtype=dtype,
        plan=plan,
    )
    buffer = complete(asked, None, (), engine, queue, wait_for)
    return Ragged(buffer, rows, columns=columns)


def _half(matrix: Any, lower: bool) -> Any:
    """Return a triangle, with zeros elsewhere; NumPy's ``tril`` makes a new mask in each call."""
    n = len(matrix)
    if n > CLASSES[-1]:
        return np.tril(matrix) if lower else np.triu(matrix)
    return np.where(_mask(n, lower), matrix, matrix.dtype.type(0))


@lru_cache(maxsize=2 * CLASSES[-1] + 2)
def _mask(n: int, lower: bool) -> np.ndarray[Any, Any]:
    mask = np.tri(n, dtype=bool)
    return mask if lower else mask.T


def _column(view: View) -> View:
    (extent,), (stride,) = view.shape, view.strides
    return View(view.buffer, view.offset, (extent, 1), (stride, 1), view.dtype, view.address)


def listed(matrices: Ragged) -> list[Any]:
    """Return a view of each matrix."""
    return [matrices[k] for k in range(len(matrices))]
