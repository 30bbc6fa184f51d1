"""The pattern of the user's matrix, and its conversion to a canonical form.

The canonical form is the lower triangle in CSR form, with ascending columns and no duplicates.  All
stored elements are kept, zeros too, except the padding of blocks and diagonals.  A
:class:`Pattern` has the source of each of its elements, so converting another matrix of the same
pattern costs little more than reading its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from portable_gpu.arguments import one_of, shown
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ShapeError
from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.formats import Values, dtype_of_values, expanded, parts_of
from portable_gpu.sparse.graph import Int32, Int64

#: The values of ``triangle=``.
TRIANGLES = ("lower", "upper")

#: An element and its mirror image may differ by this many units of rounding of the geometric mean
#: of their diagonal elements.  Sums of m terms in different orders differ by up to m units, and
#: finite elements of high order sum some hundreds of terms.
ROUNDING = 1024


@dataclass(frozen=True, eq=False)
class Pattern:
    """The pattern of a symmetric matrix, and the source of each element's value.

    Attributes:
        n: The number of rows and columns.
        pointers, columns: The lower triangle in CSR form, with ascending columns.
        triangle: The stored part: "lower", "upper" or "full"; or the chosen triangle.
        is_chosen: Whether a triangle was chosen; then the other one is ignored.
        stored: The number of stored values.
        order, starts: If the matrix stores duplicates: the values in the order in which they are
            summed, and the start of each sum; else None.
        take: The index of each element's (summed) value; -1 if it is not stored.
        mirror: The index of the mirror image's value; None if one triangle was stored.
        layout: The format of the matrix, and the two arrays of its indices.
    """

    n: int
    pointers: Int64
    columns: Int32
    triangle: str
    is_chosen: bool
    stored: int
    order: Int64 | None
    starts: Int64 | None
    take: Int64
    mirror: Int64 | None
    layout: tuple[str, Values, Values]

    def __repr__(self) -> str:
        return f"<Pattern n={self.n} nnz={self.nnz} of a matrix that stores {self.triangle!r}>"

    @property
    def nnz(self) -> int:
        """The number of elements of the lower triangle."""
        return len(self.columns)

    def values(self, A: Any, triangle: str | None = None) -> Values:
        """Return the values of the lower triangle of a matrix within this pattern.

        Args:
            A: A sparse matrix; elements of the pattern that it does not store are zero, and it may
                store zeros outside the pattern.  Or an array of the stored values of a matrix with
                the same format and pattern, in its order.
            triangle: The triangle to read, ``lower`` or ``upper``; None: the one that was chosen in
                the analysis, else what the matrix stores.

        Raises:
            ShapeError: `A` has another shape, or stores another number of values.
            DTypeError: `A` is not a matrix, or its dtype is not supported.
            ArgumentError: A nonzero element is outside the pattern; an element is not finite, or
                differs from its mirror image; `triangle` is not valid, or the matrix stores only
                the other one.
        """
        data, indices = self.stored_in(A)
        if indices is not None and all(np.array_equal(*pair) for pair in indices):
            return self._lower(data, triangle)
        if triangle is None and self.is_chosen:
            triangle = self.triangle
        other = pattern_of(A, triangle)
        lower = other._lower(data)
        place = _places(self.pointers, self.columns, other.pointers, other.columns)
        outside = (place < 0) & (lower != 0)
        if outside.any():
            k = int(np.argmax(outside))
            row = int(np.searchsorted(other.pointers, k, "right")) - 1
            raise ArgumentError(
                f"A has an element ({row}, {other.columns[k]}) where the matrix analysed has none: "
                "analyze(A) anew"
            )
        values = np.zeros(self.nnz, data.dtype)
        values[place[place >= 0]] = lower[place >= 0]
        return values

    def stored_in(self, A: Any) -> tuple[Values, Sequence[tuple[Values, Values]] | None]:
        """Return the stored values of a matrix, and the index arrays to compare.

        Args:
            A: As for :meth:`values`.

        Returns:
            The values, and pairs of index arrays: of the matrix and of the analysed one.  If the
            arrays of each pair are equal, the matrix stores the same elements in the same order.
            None in place of the pairs if the formats or the numbers of values differ.

        Raises:
            ShapeError, DTypeError, ArgumentError: As :meth:`values`, except for elements.
        """
        if isinstance(A, np.ndarray):
            if A.shape != (self.stored,):
                raise ShapeError(
                    f"values have the shape {A.shape}; the matrix analysed stores {self.stored} "
                    "values, and they are wanted in its order, as an array of one axis"
                )
            return A.astype(dtype_of_values(A.dtype, "values have"), copy=False), ()
        if not scipy.sparse.issparse(A):
            raise ArgumentTypeError(
                f"values is {shown(A)}; "
                "expected a scipy.sparse array or matrix, or an array of the values "
                "that it stores"
            )
        kind, *indices, data = parts_of(A)
        if A.shape != (self.n, self.n):
            raise ShapeError(f"A has the shape {A.shape}; {(self.n, self.n)} was analysed")
        if kind != self.layout[0] or len(data) != self.stored:
            return data, None
        return data, list(zip(indices, self.layout[1:], strict=True))

    def sources(self, triangle: str | None = None) -> tuple[Int64, bool]:
        """Return the index of each element's stored value, and whether it is conjugated.

        Args:
            triangle: As for :meth:`values`.

        Raises:
            ArgumentError: `triangle` is not valid, or the matrix stores only the other one.
        """
        if triangle is None or one_of(triangle, TRIANGLES, "triangle") == self.triangle:
            return self.take, self.triangle == "upper"
        if self.mirror is not None:
            return (self.take, False) if triangle == "lower" else (self.mirror, True)
        if self.nnz > np.count_nonzero(self._diagonal()):
            raise ArgumentError(
                f"triangle is {triangle!r}, and of the matrix analysed the {self.triangle} one "
                "counts alone: analyze(A) anew"
            )
        return self.take, False

    def whole(self, lower: Values) -> Any:
        """Build the full matrix, a ``scipy.sparse.csr_array``, from its lower triangle."""
        shape = (self.n, self.n)
        triangle = scipy.sparse.csr_array((lower, self.columns, self.pointers), shape=shape)
        return scipy.sparse.csr_array(triangle + scipy.sparse.tril(triangle, -1).conj().T)

    def _diagonal(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each row whether it has a diagonal element, the last one of the row."""
        rows = np.flatnonzero(np.diff(self.pointers))
        has_diagonal = np.zeros(self.n, bool)
        has_diagonal[rows] = self.columns[self.pointers[rows + 1] - 1] == rows
        return has_diagonal

    def _lower(self, data: Values, triangle: str | None = None) -> Values:
        """Gather and check the lower triangle of stored values."""
        take, is_mirrored = self.sources(triangle)
        finite = np.isfinite(data)
        if not finite.all():
            rows, columns = self.coordinates()
            if triangle is not None or self.is_chosen:
                upper = (triangle or self.triangle) == "upper"
                finite |= rows > columns if upper else rows < columns
            if not finite.all():
                first = int(np.argmin(finite))
                raise ArgumentError(
                    f"A[{rows[first]}, {columns[first]}] is {data[first]}; all elements must be "
                    "finite"
                )
        if self.order is not None and self.starts is not None:
            data = np.add.reduceat(data[self.order], self.starts) if len(data) else data
        lower = _gathered(data, take)
        if is_mirrored:
            lower = lower.conj()
        self._check_symmetry(data, lower, self.mirror if triangle is None else None)
        return lower

    def coordinates(self) -> tuple[Values, Values]:
        """Return the row and the column of each stored value."""
        return expanded(*self.layout)

    def _check_symmetry(self, data: Values, lower: Values, mirror: Int64 | None) -> None:
        """Raise if it is not Hermitian, beyond rounding; clear the diagonal's imaginary parts."""
        rounding = ROUNDING * np.finfo(lower.dtype).eps
        rows = np.flatnonzero(self._diagonal())
        places = self.pointers[rows + 1] - 1
        if np.iscomplexobj(lower):
            wrong = np.abs(lower[places].imag) > rounding * np.abs(lower[places].real)
            if wrong.any():
                i = int(rows[np.argmax(wrong)])
                value = lower[places[np.argmax(wrong)]]
                raise ArgumentError(
                    f"A[{i}, {i}] is {value}; the diagonal of a Hermitian matrix is real"
                )
        mirrored = lower if mirror is None else _gathered(data, mirror).conj()
        if not np.array_equal(lower, mirrored):
            magnitude = np.zeros(self.n)
            magnitude[rows] = np.sqrt(np.abs(lower[places]))
            row = np.repeat(np.arange(self.n), np.diff(self.pointers))
            scale = magnitude[row] * magnitude[self.columns]
            scale = np.maximum(scale, np.maximum(np.abs(lower), np.abs(mirrored)))
            wrong = np.abs(lower - mirrored) > rounding * scale
            if wrong.any():
                k = int(np.argmax(wrong))
                i, j = int(row[k]), int(self.columns[k])
                conjugate = " and not its conjugate" if np.iscomplexobj(lower) else ""
                raise ArgumentError(
                    f"A is not symmetric: A[{i}, {j}] is {lower[k]}, and A[{j}, {i}] is "
                    f"{mirrored[k].conj()}{conjugate}; triangle='lower' or 'upper' takes one "
                    "triangle alone"
                )
        if np.iscomplexobj(lower):
            lower[places] = lower[places].real


def pattern_of(A: Any, triangle: str | None = None) -> Pattern:
    """Build the pattern of a square sparse matrix that stores one triangle or both.

    Args:
        A: The matrix.
        triangle: The only triangle to read, ``lower`` or ``upper``; None for both.

    Cost: O(n + nnz).

    Raises:
        ShapeError: `A` is not square.
        DTypeError: `A` is not a sparse matrix, or its dtype is not supported.
        ArgumentError: An index is out of range, `A` is damaged, `n` is not below 2^31 - 1;
            `triangle` is not valid, or `A` stores only the other one.
    """
    if triangle is not None:
        one_of(triangle, TRIANGLES, "triangle")
    kind, first, second, data = parts_of(A)
    n = int(A.shape[0])
    rows, columns = expanded(kind, first, second)
    for name, index in (("row", rows), ("column", columns)):
        if len(index) and (index.min() < 0 or index.max() >= n):
            wrong = index[(index < 0) | (index >= n)][0]
            raise ArgumentError(f"A has an element in {name} {wrong}; its shape is {A.shape}")
    rows, columns = np.array(rows, np.int32), np.array(columns, np.int32)
    below, above = bool((rows > columns).any()), bool((rows < columns).any())
    chosen = None
    if triangle is not None and (below or above):
        if not (below if triangle == "lower" else above):
            other = "upper" if above else "lower"
            raise ArgumentError(
                f"triangle is {triangle!r}, and A has elements in its {other} triangle alone"
            )
        if below and above:
            counts = rows >= columns if triangle == "lower" else rows <= columns
            chosen = np.flatnonzero(counts)
            rows, columns = rows[chosen], columns[chosen]
            below, above = triangle == "lower", triangle == "upper"
    pointers, canonical, order, starts, take, mirror, places, sums = _canonical(rows, columns, n)
    canonical, starts = canonical[:places].copy(), starts[:sums].copy()
    take, mirror = take[:places].copy(), mirror[:places].copy()
    if chosen is not None:
        order = chosen[order]
    repeated = len(starts) < len(order)
    if not repeated and len(order):
        take = np.where(take < 0, -1, order[take])
        mirror = np.where(mirror < 0, -1, order[mirror])
    return Pattern(
        n=n, pointers=pointers, columns=canonical,
        triangle="full" if below and above else "upper" if above else "lower",
        is_chosen=triangle is not None, stored=len(data), order=order if repeated else None,
        starts=starts if repeated else None, take=mirror if above and not below else take,
        mirror=mirror if below and above else None, layout=(kind, first.copy(), second.copy()),
    )  # fmt: skip


def _gathered(data: Values, index: Int64) -> Values:
    if len(index) == 0 or len(data) == 0:
        return np.zeros(len(index), data.dtype)
    result: Values = data[index]  # -1 reads the last value, and is set to zero below
    absent = index < 0
    if absent.any():
        result[absent] = 0
    return result


@compiled
def _canonical(
    rows: Int32, columns: Int32, n: int
) -> tuple[Int64, Int32, Int64, Int64, Int64, Int64, int, int]:
    """Sort stored elements into the lower triangle by rows; the upper ones are mirrored.

    Returns:
        * The pointers and the columns of the lower triangle.
        * The stored elements, sorted by row and column of the lower triangle; those that were
          stored below the diagonal precede their mirror images.
        * The start of each sum: of the duplicates that are stored at one position.
        * For each element of the triangle, the index of its sum, and that of its mirror image's
          sum; -1 if it is not stored.  A diagonal element is its own mirror image.
        * The number of elements of the triangle, and of sums; the arrays above may be longer.
    """
    stored = len(rows)
    begin = np.zeros(n + 2, np.int64)
    for e in range(stored):
        begin[min(rows[e], columns[e]) + 2] += 1
    for i in range(n):
        begin[i + 2] += begin[i + 1]
    by_column = np.empty(stored, np.int64)
    for e in range(stored):
        j = min(rows[e], columns[e])
        by_column[begin[j + 1]] = e
        begin[j + 1] += 1
    row_begin = np.zeros(n + 2, np.int64)
    for e in range(stored):
        row_begin[max(rows[e], columns[e]) + 2] += 1
    for i in range(n):
        row_begin[i + 2] += row_begin[i + 1]
    order = np.empty(stored, np.int64)
    for k in range(stored):
        e = by_column[k]
        i = max(rows[e], columns[e])
        order[row_begin[i + 1]] = e
        row_begin[i + 1] += 1

    pointers = np.zeros(n + 1, np.int64)
    canonical = np.empty(stored, np.int32)
    starts = np.empty(stored, np.int64)
    take = np.empty(stored, np.int64)
    mirror = np.empty(stored, np.int64)
    above = by_column  # reuse the memory
    places = sums = 0
    for i in range(n):
        k = row_begin[i]
        while k < row_begin[i + 1]:
            first = order[k]
            j = min(rows[first], columns[first])
            begin_above = write = k
            count = 0
            while k < row_begin[i + 1]:
                e = order[k]
                if min(rows[e], columns[e]) != j:
                    break
                if rows[e] >= columns[e]:
                    order[write] = e
                    write += 1
                else:
                    above[count] = e
                    count += 1
                k += 1
            take[places] = mirror[places] = -1
            if write > begin_above:
                starts[sums] = begin_above
                take[places] = sums
                if i == j:
                    mirror[places] = sums
                sums += 1
            if count > 0:
                starts[sums] = write
                mirror[places] = sums
                sums += 1
                for q in range(count):
                    order[write + q] = above[q]
            canonical[places] = j
            places += 1
        pointers[i + 1] = places
    return pointers, canonical, order, starts, take, mirror, places, sums


@compiled
def _places(pointers: Int64, columns: Int32, inner_pointers: Int64, inner_columns: Int32) -> Int64:
    """Return the positions of a triangle's elements in another one; -1 if it lacks them."""
    place = np.full(len(inner_columns), -1, np.int64)
    for i in range(len(pointers) - 1):
        q = pointers[i]
        for k in range(inner_pointers[i], inner_pointers[i + 1]):
            while q < pointers[i + 1] and columns[q] < inner_columns[k]:
                q += 1
            if q < pointers[i + 1] and columns[q] == inner_columns[k]:
                place[k] = q
    return place
