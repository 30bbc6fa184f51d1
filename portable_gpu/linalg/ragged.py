"""Factors and solves of matrices of different sizes: a list, or places in one buffer.

Small ones take one launch for each class of sizes, large ones go by halves, each by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of
from portable_gpu.dtypes import check_precision, element
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.factor.arguments import CHECKS, check_dtype, precision_of, transposition
from portable_gpu.ops.factor.candidates import make_ragged_cholesky, make_ragged_solve
from portable_gpu.ops.factor.packed_steps import placed
from portable_gpu.ops.factor.plan import CopyPlan, CopyProblem
from portable_gpu.ops.factor.ragged import CLASSES, RaggedMatrices, ragged_zeros
from portable_gpu.ops.factor.reports import beside_of, not_positive_definite, singular
from portable_gpu.ops.factor.stack import Matrix, stacked
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.operation import Invocation, complete
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Part, Plan, Step, Steps
from portable_gpu.runtime.views import AnyArray, View, as_array

__all__ = ["Ragged", "cho_solve", "cholesky", "solve_triangular"]

_Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Ragged:
    """Matrices by rows in one buffer, of different sizes.

    Matrices that a call writes must not overlap.  What lies between them is left alone.

    Attributes:
        buffer: The array of one axis that holds them, of NumPy or of a device.
        rows, columns, offsets, leading: Of each matrix: its extents, where in the buffer it begins,
            and how many elements a row lies behind the row above it.
    """

    def __init__(
        self,
        buffer: AnyArray,
        sizes: Sequence[int],
        offsets: Sequence[int] | None = None,
        leading: Sequence[int] | int | None = None,
        columns: Sequence[int] | int | None = None,
    ) -> None:
        """Describe them.

        Args:
            buffer: Shape (size,), of adjacent elements.
            sizes: Rows of each.
            offsets: Where each begins; without it one follows the other.
            leading: Elements from row to row, of each or of all; without it ``columns``.
            columns: Of each or of all; without it they are square.

        Raises:
            ShapeError: The buffer has not one axis, or does not hold a matrix.
            ArgumentError: Numbers that are negative, no integers, or too few; a buffer with gaps.
        """
        array = as_array(buffer, "buffer")
        check_dtype(array.dtype, "buffer")
        self.rows = _numbers(sizes, "sizes", None)
        count = len(self.rows)
        self.columns = self.rows if columns is None else _numbers(columns, "columns", count)
        self.leading = self.columns if leading is None else _numbers(leading, "leading", count)
        taken = self.rows * self.leading
        if offsets is None:
            self.offsets = np.cumsum(taken) - taken
        else:
            self.offsets = _numbers(offsets, "offsets", count)
        numbers = np.stack((self.rows, self.columns, self.offsets, self.leading))
        self._key = count, sha256(numbers.tobytes()).digest()  # what plans keep of them is small
        narrow = np.flatnonzero((self.leading < self.columns) & (self.rows > 1))
        if narrow.size:
            k = int(narrow[0])
            raise ArgumentError(
                f"leading[{k}] is {self.leading[k]}; matrix {k} has {self.columns[k]} columns"
            )
        some = (self.rows > 0) & (self.columns > 0)
        ends = np.where(some, self.offsets + (self.rows - 1) * self.leading + self.columns, 0)
        self._end, self._last = (int(ends.max()), int(ends.argmax())) if count else (0, 0)
        self.buffer = self._checked(array)

    def like(self, buffer: AnyArray) -> Ragged:
        """Matrices of the same sizes and places in another buffer: no table is made anew.

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
                f"buffer has {array.size} elements; by rows, columns, offsets and leading matrix "
                f"{k} ({self.rows[k]} x {self.columns[k]}, a row each {self.leading[k]}, from "
                f"{self.offsets[k]} on) ends at {self._end}"
            )
        return array

    def _matrices(self, view: View) -> RaggedMatrices:
        elem = element(view.dtype)
        return RaggedMatrices(
            elem, self.rows, self.columns, self.offsets, self.leading, min(16, view.alignment)
        )

    def _same(self, view: View) -> tuple[Any, ...]:
        """What plans go by."""
        return (*self._key, view.dtype, view.size, min(16, view.alignment))


def cholesky(
    a: Ragged | Sequence[AnyArray],
    *,
    lower: bool = True,
    overwrite: bool = False,
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
        overwrite: Of a :class:`Ragged`: put the factors into its buffer.
        check, precision, engine, queue, wait_for: As :func:`portable_gpu.linalg.cholesky`.

    Returns:
        Of a list a list of views of one fresh buffer, with zeros in the other triangles.  Of a
        :class:`Ragged` another one, of the same buffer or of a copy; the other triangles stay.

    Raises:
        NotPositiveDefiniteError: ``index`` is the place in the list.
        ShapeError, DTypeError, ArgumentError, UnsupportedError, DeviceMemoryError: As
            :func:`portable_gpu.linalg.cholesky`.

    Cost: ``n^3 / 3`` flop for each matrix.  A plan is made for the sizes and places at hand; others
        like it (:meth:`Ragged.like`) take no time of the host's for each matrix.
    """
    lower, overwrite = flag(lower, "lower"), flag(overwrite, "overwrite")
    one_of(check, CHECKS, "check")
    place = engine, queue, events_of(wait_for)
    if not isinstance(a, Ragged):
        if overwrite:
            raise ArgumentError("overwrite is for a Ragged; a list's matrices are copied")
        found = _gathered(a, "a", lower, *place)
        return _listed(cholesky(found, lower=lower, overwrite=True, check=check,
                                precision=precision, engine=engine, queue=queue))  # fmt: skip
    _check_square(a)
    buffer = a.buffer
    if precision is not None:
        check_precision(precision)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view, products = views[-1], precision_of(precision, engine)

        def make() -> Plan:
            steps = make_ragged_cholesky(engine, a._matrices(view), lower, products)
            if overwrite:
                return Steps(steps)
            return Steps([_copy(engine, views, 0, 1), *placed(steps, (1, 2))])

        return engine.plan(("ragged cholesky", lower, overwrite, products, *a._same(view)), make)

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
        report=beside_of(count, not_positive_definite(count, buffer.dtype)),
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
        b: A list of as many matrices or vectors, or a :class:`Ragged`; of ``a``'s dtype.
        trans, lower, unit_diagonal, check, precision, engine, queue, wait_for: As
            :func:`portable_gpu.linalg.solve_triangular`.
        overwrite_b: Of a :class:`Ragged`: put X into its buffer.

    Returns:
        Of a list a list, of a :class:`Ragged` another one, as :func:`cholesky`.

    Raises:
        SingularMatrixError: ``index`` is the place in the list.
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
    lower: bool = True,
    *,
    overwrite_b: bool = False,
    check: str = "late",
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Solve ``A X = B``, given Cholesky factors of different sizes.

    Args, Returns, Raises: As :func:`solve_triangular`; ``a`` is what :func:`cholesky` returned.
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
    """Solves one after the other, each of which is transposed, conjugated, with unit diagonal."""
    overwrite = flag(overwrite, "overwrite_b")
    one_of(check, CHECKS, "check")
    place = engine, queue, events_of(wait_for)
    if not isinstance(b, Ragged):
        if overwrite:
            raise ArgumentError("overwrite_b is for a Ragged; a list's matrices are copied")
        triangles = a if isinstance(a, Ragged) else _gathered(a, "a", None, *place)
        gathered = _gathered(b, "b", None, *place)
        found = _solve(triangles, gathered, lower, solves, True, check, precision, *place)
        return [_shaped(one, x.shape) for one, x in zip(_listed(found), b, strict=True)]
    if not isinstance(a, Ragged):
        a = _gathered(a, "a", None, *place)
    _check_square(a)
    _check_pairs(a, b)
    if precision is not None:
        check_precision(precision)
    reads = not solves[0][2]

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view_a, view, products = views[0], views[-1], precision_of(precision, engine)
        x = len(views) - 1

        def make() -> Plan:
            own, other = a._matrices(view_a), b._matrices(view)
            steps = [] if overwrite else [_copy(engine, views[1:], 1, 2)]
            for transposed, conj, unit in solves:
                made = make_ragged_solve(
                    engine, own, other, lower, transposed, conj, unit, products
                )
                steps.extend(placed(made, (0, x)))
            if reads:
                steps[:0] = placed([ragged_zeros(engine, own)], (0, x, x + 1))
            return Steps(steps)

        key = (
            "ragged solve", lower, solves, overwrite, products, *a._same(view_a), *b._same(view)
        )  # fmt: skip
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
        report=beside_of(count, singular(count)) if reads else None,
        check=check,
    )
    return b.like(complete(asked, None, (), *place))


# -- arguments


def _numbers(values: Any, name: str, count: int | None) -> _Numbers:
    try:
        found = np.asarray(values)
    except Exception as error:  # raised by the value's own methods, too
        raise ArgumentError(f"{name} is no list of integers: {error}") from error
    if found.size == 0:
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu" or found.ndim > 1 or (count is None and found.ndim == 0):
        raise ArgumentError(f"{name} is {found.dtype} of {found.ndim} axes; integers are needed")
    found = found.astype(np.int64)
    if count is not None and found.ndim == 0:
        found = np.full(count, found)
    if count is not None and len(found) != count:
        raise ArgumentError(f"{name} has {len(found)} numbers for {count} matrices")
    if found.size and found.min() < 0:
        raise ArgumentError(f"{name} has a negative number, {found.min()}")
    return found


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


def _gathered(
    arrays: Any,
    name: str,
    lower: bool | None,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Ragged:
    """A list's matrices in one fresh buffer; of each the triangle that ``lower`` names, or all."""
    if isinstance(arrays, (np.ndarray, *DEVICE_KINDS)) or not isinstance(arrays, Sequence):
        raise DTypeError(f"{name} is a {type(arrays).__name__}; a list of matrices is needed")
    given = [as_array(one, f"{name}[{k}]") for k, one in enumerate(arrays)]
    for k, one in enumerate(given):
        check_dtype(one.dtype, f"{name}[{k}]")
        if one.ndim not in ((1, 2) if name == "b" else (2,)):
            raise ShapeError(f"{name}[{k}] has shape {tuple(one.shape)}; a matrix is needed")
        if name == "a" and one.shape[0] != one.shape[1]:
            raise ShapeError(f"a[{k}] has shape {tuple(one.shape)}; square matrices are needed")
        if one.dtype != given[0].dtype:
            raise DTypeError(f"{name}[{k}] is {one.dtype} and {name}[0] {given[0].dtype}")
    on_device = [isinstance(one, DEVICE_KINDS) for one in given]
    if any(on_device) and not all(on_device):
        raise DTypeError(f"{name} has arrays of NumPy and arrays of a device; use one kind")
    shapes = [one.shape if one.ndim == 2 else (one.shape[0], 1) for one in given]
    rows, columns = [n for n, _ in shapes], [m for _, m in shapes]
    dtype = given[0].dtype if given else np.dtype(np.float64)
    if not any(on_device):
        kept = [one if lower is None else _half(one, lower) for one in given]
        flat = [one.reshape(-1) for one in kept]
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
                part = engine.plan(("copy", copy), partial(CopyPlan, engine, copy))
                steps.append(Step(part, (k, Part(len(inputs), int(starts[k])))))
            return Steps(steps)

        lies = tuple((v.dtype, v.shape, v.strides) for v in inputs)
        return engine.plan(("gather", lower, lies), make)

    asked = Invocation(
        inputs=tuple(given),
        names=tuple(f"{name}[{k}]" for k in range(len(given))),
        shape=(int(starts[-1]),),
        dtype=dtype,
        plan=plan,
    )
    buffer = complete(asked, None, (), engine, queue, wait_for)
    return Ragged(buffer, rows, columns=columns)


def _half(matrix: Any, lower: bool) -> Any:
    """A triangle, and zeros; NumPy's ``tril`` makes the mask anew for every matrix."""
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


def _copy(engine: Engine, views: Sequence[View], source: int, target: int) -> Step:
    """The step that copies one buffer into another."""
    elem = element(views[0].dtype)
    line = Operand(elem, 0, 1)
    return Step(CopyPlan(engine, CopyProblem(1, views[0].size, (), line, line)), (source, target))


def _shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """A matrix of one column as a vector, if it is to be one."""
    if array.shape == shape:
        return array
    found = array.reshape(shape)
    if isinstance(found, Array):
        found.reports = array.reports
    return found


def _listed(found: Ragged) -> list[Any]:
    return [found[k] for k in range(len(found))]
