"""Batches of matrices with the same pattern.

The matrices are the blocks of one block-diagonal matrix.  Its elimination forest has one tree for
each matrix, and the same level of all trees is processed at the same time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotPositiveDefiniteError,
    ShapeError,
)
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.closing import Closing
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import AnyArray, as_array, check_output
from portable_gpu.sparse.factor import Factor
from portable_gpu.sparse.matrix import Pattern
from portable_gpu.sparse.stats import Stats
from portable_gpu.sparse.symbolic import Symbolic


class FactorStack(Closing):
    """Cholesky factors of many sparse matrices of one pattern, on a device.

    Attributes:
        symbolic: The analysis of one matrix.
        count: The number of matrices.
    """

    def __init__(
        self,
        symbolic: Symbolic,
        count: int,
        dtype: Any = np.float64,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
    ) -> None:
        """Allocate the memory; the factors have no values yet.

        Args:
            symbolic: The analysis of one matrix.
            count: The number of matrices, at least 1.
            dtype, engine, queue: As for :class:`Factor`.

        Raises:
            DTypeError, UnsupportedError, DeviceMemoryError: As :class:`Factor`.
            ArgumentError: ``count`` is less than 1, or ``count * n`` is 2^31 - 1 or more.
        """
        if not isinstance(symbolic, Symbolic):
            raise ArgumentTypeError(
                f"symbolic is {shown(symbolic)}; expected a result of analyze()"
            )
        self.symbolic, self.count = symbolic, whole(count, "count")
        if self.count < 1 or self.count * symbolic.n >= 2**31 - 1:
            raise ArgumentError(
                f"count is {count}; expected 1 or more, and fewer than 2^31 - 1 rows in all"
            )
        self._blocks = _Blocks(
            self.symbolic.n, repeated(symbolic, self.count), dtype, engine, queue
        )

    def refactorize(
        self, values: AnyArray, *, triangle: str | None = None, progress: Any = None
    ) -> FactorStack:
        """Factorise other matrices of the same pattern, in place.

        Args:
            values: Shape (count, stored): the stored values of each matrix, in the order of the
                analysed one; a NumPy array, or a device array in C order, which is not checked.
            triangle: As for :meth:`Factor.refactorize`.
            progress: As for :meth:`Factor.refactorize`, for all matrices together.

        Returns:
            This stack.

        Raises:
            NotPositiveDefiniteError: A matrix has no factor; ``.index`` is its index, ``(i,)``.
                For values on the device it is raised when a solution is copied to the host.
            ShapeError, DTypeError, ArgumentError: ``values`` are not valid.

        Cost: ``count * symbolic.flops`` multiplications and additions.
        """
        values = as_array(values, "values")
        pattern = self.symbolic.pattern
        if tuple(values.shape) != (self.count, pattern.stored):
            raise ShapeError(
                f"values have the shape {tuple(values.shape)}; expected "
                f"{(self.count, pattern.stored)}"
            )
        try:
            joined = _joined(values, "values")
            self._blocks.refactorize(joined, triangle=triangle, progress=progress)
        except ArgumentError:
            for i in range(self.count if isinstance(values, np.ndarray) else 0):
                try:
                    pattern.values(values[i], triangle)
                except ArgumentError as error:
                    raise ArgumentError(f"matrix {i} of the stack: {error}") from None
            raise
        return self

    def check(self) -> None:
        """Wait for the factorisation, and raise its error, if there is one."""
        self._blocks.check()

    def solve(
        self,
        b: AnyArray,
        system: str = "A",
        *,
        refine: str | int | None = None,
        out: AnyArray | None = None,
    ) -> Any:
        """Solve ``A_i X_i = B_i`` for every i, or with a part of the factorisations.

        Args:
            b: Shape (count, n) or (count, n, k): a NumPy array, or a device array in C order.
            system: As for :meth:`Factor.solve`.
            refine: As for :meth:`Factor.solve`; ``auto`` continues until all columns are accurate.
            out: The array for the solutions, in C order.

        Returns:
            ``out``, or the solutions as a fresh array, of ``b``'s shape and kind.

        Raises:
            NotPositiveDefiniteError: A matrix has no factor.
            ShapeError, DTypeError, ArgumentError: ``b``, ``system`` or ``refine`` is not valid.
        """
        b = as_array(b, "b")
        n = self.symbolic.n
        if b.ndim not in (2, 3) or tuple(b.shape[:2]) != (self.count, n):
            raise ShapeError(
                f"b has the shape {tuple(b.shape)}; expected {(self.count, n)} or "
                f"({self.count}, {n}, k)"
            )
        joined = None
        if out is not None:
            dtype = getattr(out, "dtype", self._blocks.dtype)  # the factor checks it
            check_output(out, tuple(b.shape), dtype, "out", isinstance(b, np.ndarray))
            if not out.flags.c_contiguous:
                raise ArgumentError("out is not in C order; pass an array that is")
            joined = _joined(out, "out")
        solution = self._blocks.solve(_joined(b, "b"), system, refine=refine, out=joined)
        return solution.reshape(b.shape) if out is None else out

    def logdet(self) -> np.ndarray[Any, Any]:
        """Compute the natural logarithms of the determinants, shape (count,).

        Raises:
            NotPositiveDefiniteError: A matrix has no factor.
        """
        return self._blocks.logdets(self.count)

    def inv_diag(self) -> np.ndarray[Any, Any]:
        """Compute the diagonals of the inverses, shape (count, n): see :meth:`Factor.inv_diag`.

        Raises:
            NotPositiveDefiniteError: A matrix has no factor.
        """
        return self._blocks.inv_diag().reshape(self.count, self.symbolic.n)

    @property
    def stats(self) -> Stats:
        """The statistics of all matrices together."""
        return self._blocks.stats

    def close(self) -> None:
        """Free the device's memory."""
        self._blocks.close()

    def __repr__(self) -> str:
        return f"<FactorStack of {self.count}: {self._blocks!r}>"


class _Blocks(Factor):
    """The factor of the block-diagonal matrix, whose errors name the block."""

    def __init__(self, block: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._block = block

    def _raise_if_failed(self, dtype: np.dtype[Any], values: np.ndarray[Any, Any]) -> None:
        try:
            super()._raise_if_failed(dtype, values)
        except NotPositiveDefiniteError as error:
            n = self._block
            i, variable, column = error.variable // n, error.variable % n, error.column % n
            raise NotPositiveDefiniteError(
                f"matrix {i} of the stack is not positive definite: the pivot of variable "
                f"{variable} (column {column} of the permuted matrix) is "
                f"{self._describe_pivot(error.pivot, dtype)}",
                (i,), column, error.pivot, variable,
            ) from None  # fmt: skip

    def logdets(self, count: int) -> np.ndarray[Any, Any]:
        logarithms = np.log(self._diagonal().real.astype(np.float64))
        return np.asarray(2 * logarithms.reshape(count, self._block).sum(axis=1))


def _joined(array: Any, name: str) -> Any:
    """Merge the first two axes."""
    if isinstance(array, DEVICE_KINDS) and not array.flags.c_contiguous:
        raise ArgumentError(f"{name} on the device is not in C order; copy it")
    rows = array.shape[0] * array.shape[1]
    return array.reshape((rows, *array.shape[2:]))


def repeated(symbolic: Symbolic, count: int) -> Symbolic:
    """Repeat an analysis for a block-diagonal matrix of ``count`` equal blocks."""
    n = symbolic.n
    return replace(
        symbolic,
        pattern=_repeated_pattern(symbolic.pattern, count),
        perm=_shifted(symbolic.perm, count, n),
        iperm=_shifted(symbolic.iperm, count, n),
        columns=_shifted(symbolic.columns, count, n),
        parent=_shifted(symbolic.parent, count, n),
        column_counts=np.tile(symbolic.column_counts, count),
        front_columns=_shifted(symbolic.front_columns, count, n),
        fronts=_repeated_fronts(symbolic.fronts, count, n, symbolic.pattern.nnz),
        static_mask=np.tile(symbolic.static_mask, count),
        level=np.tile(symbolic.level, count),
        fundamental=symbolic.fundamental * count,
    )


def _repeated_pattern(pattern: Pattern, count: int) -> Pattern:
    distinct = pattern.stored if pattern.starts is None else len(pattern.starts)
    rows, columns = (_shifted(index, count, pattern.n) for index in pattern.coordinates())
    return Pattern(
        n=pattern.n * count,
        pointers=_starts(pattern.pointers, count),
        columns=_shifted(pattern.columns, count, pattern.n),
        triangle=pattern.triangle,
        is_chosen=pattern.is_chosen,
        stored=pattern.stored * count,
        order=None if pattern.order is None else _shifted(pattern.order, count, pattern.stored),
        starts=None if pattern.starts is None else _shifted(pattern.starts, count, pattern.stored),
        take=_shifted(pattern.take, count, distinct),
        mirror=None if pattern.mirror is None else _shifted(pattern.mirror, count, distinct),
        layout=("coo", rows, columns),
    )


def _repeated_fronts(fronts: Fronts, count: int, n: int, nnz: int) -> Fronts:
    return Fronts(
        first=_starts(fronts.first, count),
        parent=_shifted(fronts.parent, count, len(fronts)),
        row_start=_starts(fronts.row_start, count),
        row_index=_shifted(fronts.row_index, count, n),
        relative=np.tile(fronts.relative, count),
        child_start=_starts(fronts.child_start, count),
        child=_shifted(fronts.child, count, len(fronts)),
        entry_start=_starts(fronts.entry_start, count),
        entry_row=np.tile(fronts.entry_row, count),
        entry_column=np.tile(fronts.entry_column, count),
        entry_source=_shifted(fronts.entry_source, count, nnz),
        entry_conj=np.tile(fronts.entry_conj, count),
    )


def _shifted(numbers: Any, count: int, step: int) -> Any:
    """Concatenate ``count`` copies, copy k greater by ``k * step``; negative numbers stay."""
    shifts = np.arange(count, dtype=np.int64)[:, None] * step
    return np.where(numbers < 0, numbers, numbers + shifts).astype(numbers.dtype).reshape(-1)


def _starts(starts: Any, count: int) -> Any:
    """Repeat an array of start positions, whose last number is the end, for ``count`` blocks."""
    return np.append(_shifted(starts[:-1], count, int(starts[-1])), starts[-1] * count).astype(
        starts.dtype
    )
