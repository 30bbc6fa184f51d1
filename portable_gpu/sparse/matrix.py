"""The user's matrix: what it stores, brought to one form, and everything that can be wrong with it.

The form is the lower triangle by rows, columns ascending, an element once.  Whatever is stored is
kept, zeros too, but for those with which blocks and diagonals are filled up.  A :class:`Pattern`
remembers where each of its elements comes from, so a matrix of the same pattern costs little more
than the reading of its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.graph import Int32, Int64

_Values = np.ndarray[Any, np.dtype[Any]]

#: What is factorised; integers and booleans become float64.
DTYPES = tuple(np.dtype(t) for t in ("float32", "float64", "complex64", "complex128"))

#: Two elements that mirror each other may differ by this many units of rounding of the
#: geometric mean of their diagonal elements: sums taken in different orders do.
_ROUNDING = 64


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a symmetric matrix has elements, and where their values come from.

    Attributes:
        n: Rows and columns.
        pointers, columns: The lower triangle by rows, columns ascending.
        triangle: What the matrix stored: "lower", "upper" or "full".
        stored: How many values it stored.
        order, starts: Where it stored elements more than once: its values in the order in which
            they are summed, and where each sum begins; else None.
        take: Which of its (summed) values each element is; -1 of one that is not there.
        mirror: The same of the element that mirrors it; None where one triangle was stored.
        layout: The format that stored it, and the arrays of its indices.
    """

    n: int
    pointers: Int64
    columns: Int32
    triangle: str
    stored: int
    order: Int64 | None
    starts: Int64 | None
    take: Int64
    mirror: Int64 | None
    layout: tuple[str, _Values, _Values]

    def __repr__(self) -> str:
        return f"<Pattern n={self.n} nnz={self.nnz} of a matrix that stores {self.triangle!r}>"

    @property
    def nnz(self) -> int:
        """Elements of the lower triangle."""
        return len(self.columns)

    def values(self, A: Any) -> _Values:
        """The values of the lower triangle, element by element, of a matrix within this pattern.

        Args:
            A: A sparse matrix: what it lacks of the pattern is zero.  Or an array of the values
                that a matrix of the same format and pattern stores, in its order.

        Raises:
            ShapeError: `A` has another shape, or stores another number of values.
            DTypeError: `A` is no matrix, or of a dtype that is not factorised.
            ArgumentError: An element lies outside of the pattern, is not finite, or differs from
                the one that mirrors it.
        """
        if isinstance(A, np.ndarray):
            if A.shape != (self.stored,):
                raise ShapeError(
                    f"values have the shape {A.shape}; the matrix analysed stores {self.stored} "
                    "values, and they are wanted in its order, as an array of one axis"
                )
            return self._lower(A.astype(_value_dtype(A.dtype, "values have"), copy=False))
        kind, first, second, data = _parts(A)
        if A.shape != (self.n, self.n):
            raise ShapeError(f"A has the shape {A.shape}; {(self.n, self.n)} was analysed")
        if (
            kind == self.layout[0]
            and np.array_equal(first, self.layout[1])
            and np.array_equal(second, self.layout[2])
        ):
            return self._lower(data)
        other = pattern_of(A)
        place, row, column = _places(self.pointers, self.columns, other.pointers, other.columns)
        if row >= 0:
            raise ArgumentError(
                f"A has an element ({row}, {column}) where the matrix analysed has none: "
                "analyze(A) anew"
            )
        values = np.zeros(self.nnz, data.dtype)
        values[place] = other._lower(data)
        return values

    def _lower(self, data: _Values) -> _Values:
        """The lower triangle of stored values, checked."""
        finite = np.isfinite(data)
        if not finite.all():
            first = int(np.argmin(finite))
            row, column = (int(index[first]) for index in self.coordinates())
            raise ArgumentError(f"A[{row}, {column}] is {data[first]}; all elements must be finite")
        if self.order is not None and self.starts is not None:
            data = np.add.reduceat(data[self.order], self.starts) if len(data) else data
        lower = _taken(data, self.take)
        if self.triangle == "upper":
            lower = lower.conj()
        self._check_symmetry(data, lower)
        return lower

    def coordinates(self) -> tuple[_Values, _Values]:
        """Row and column of each value that the matrix stored."""
        return _expanded(*self.layout)

    def _check_symmetry(self, data: _Values, lower: _Values) -> None:
        """Refuse what is not Hermitian beyond rounding; the diagonal's imaginary parts go."""
        rounding = _ROUNDING * np.finfo(lower.dtype).eps
        rows = np.flatnonzero(np.diff(self.pointers))
        places = self.pointers[rows + 1] - 1
        on_diagonal = self.columns[places] == rows
        rows, places = rows[on_diagonal], places[on_diagonal]
        if np.iscomplexobj(lower):
            wrong = np.abs(lower[places].imag) > rounding * np.abs(lower[places].real)
            if wrong.any():
                i = int(rows[np.argmax(wrong)])
                value = lower[places[np.argmax(wrong)]]
                raise ArgumentError(
                    f"A[{i}, {i}] is {value}; the diagonal of a Hermitian matrix is real"
                )
        mirrored = lower if self.mirror is None else _taken(data, self.mirror).conj()
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
                    f"{mirrored[k].conj()}{conjugate}; scipy.sparse.tril(A) gives one triangle "
                    "alone"
                )
        if np.iscomplexobj(lower):
            lower[places] = lower[places].real


def pattern_of(A: Any) -> Pattern:
    """The pattern of a square sparse matrix, of which either triangle or both are stored.

    Cost: O(n + nnz).

    Raises:
        ShapeError: `A` is not square.
        DTypeError: `A` is no sparse matrix, or of a dtype that is not factorised.
        ArgumentError: An index is out of range, or `n` is not below 2^31 - 1.
    """
    kind, first, second, data = _parts(A)
    n = int(A.shape[0])
    if n >= 2**31 - 1:
        raise ArgumentError(f"A has {n} rows; fewer than 2^31 - 1 are taken")
    rows, columns = _expanded(kind, first, second)
    for name, index in (("row", rows), ("column", columns)):
        if len(index) and (index.min() < 0 or index.max() >= n):
            wrong = index[(index < 0) | (index >= n)][0]
            raise ArgumentError(f"A has an element in {name} {wrong}; its shape is {A.shape}")
    rows, columns = np.array(rows, np.int32), np.array(columns, np.int32)
    below, above = bool((rows > columns).any()), bool((rows < columns).any())
    pointers, canonical, order, starts, take, mirror, places, sums = _canonical(rows, columns, n)
    canonical, starts = canonical[:places].copy(), starts[:sums].copy()
    take, mirror = take[:places].copy(), mirror[:places].copy()
    repeated = len(starts) < len(order)
    if not repeated and len(order):
        take = np.where(take < 0, -1, order[take])
        mirror = np.where(mirror < 0, -1, order[mirror])
    return Pattern(
        n,
        pointers,
        canonical,
        "full" if below and above else "upper" if above else "lower",
        len(data),
        order if repeated else None,
        starts if repeated else None,
        mirror if above and not below else take,
        mirror if below and above else None,
        (kind, first.copy(), second.copy()),
    )


def _parts(A: Any) -> tuple[str, _Values, _Values, _Values]:
    """The format of a matrix, the two arrays of its indices, and its values."""
    dtype = value_dtype(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"A has the shape {A.shape}; a square matrix is wanted")
    if A.format in ("csr", "csc"):
        stored = int(A.indptr[-1])
        return A.format, A.indptr, A.indices[:stored], A.data[:stored].astype(dtype, copy=False)
    padded = A.format in ("bsr", "dia")
    A = A.tocoo()
    if padded:
        A.eliminate_zeros()
    return "coo", A.row, A.col, A.data.astype(dtype, copy=False)


def value_dtype(A: Any) -> np.dtype[Any]:
    """The dtype of a sparse matrix's values, as they are factorised.

    Raises:
        DTypeError: `A` is no sparse matrix, or of a dtype that is not factorised.
    """
    if not scipy.sparse.issparse(A):
        raise DTypeError(
            f"A is {type(A).__name__}; a scipy.sparse array or matrix is wanted "
            "(scipy.sparse.csr_array(A) makes one of a dense array)"
        )
    return _value_dtype(A.dtype, "A has")


def _value_dtype(given: np.dtype[Any], who: str) -> np.dtype[Any]:
    dtype = given.newbyteorder("=")
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype not in DTYPES:
        accepted = ", ".join(map(str, DTYPES))
        raise DTypeError(f"{who} the dtype {given}; {accepted} are taken, and integers as float64")
    return dtype


def factor_dtype(dtype: Any) -> np.dtype[Any]:
    """`dtype` as NumPy's, if it is one that is factorised."""
    try:
        kind: np.dtype[Any] | None = np.dtype(dtype)
    except Exception:  # of whatever it raises that is no dtype
        kind = None
    if kind not in DTYPES or dtype is None:
        accepted = ", ".join(map(str, DTYPES))
        given = shown(dtype) if kind is None else kind
        raise DTypeError(f"dtype is {given}; {accepted} are factorised")
    return kind


def _expanded(kind: str, first: _Values, second: _Values) -> tuple[_Values, _Values]:
    """Row and column of each stored value."""
    if kind == "coo":
        return first, second
    line = np.repeat(np.arange(len(first) - 1, dtype=np.int32), np.diff(first))
    return (line, second) if kind == "csr" else (second, line)


def _taken(data: _Values, index: Int64) -> _Values:
    if len(index) == 0 or len(data) == 0:
        return np.zeros(len(index), data.dtype)
    taken: _Values = data[index]  # -1 takes the last, and is put right
    absent = index < 0
    if absent.any():
        taken[absent] = 0
    return taken


@compiled
def _canonical(
    rows: Int32, columns: Int32, n: int
) -> tuple[Int64, Int32, Int64, Int64, Int64, Int64, int, int]:
    """Stored elements sorted into the lower triangle by rows, those above as their mirror images.

    Returns:
        The triangle's pointers and columns; the stored elements by rows, columns and triangles;
        where those of each place and triangle begin; and which of them each element of the
        triangle, and each mirror image, is, or -1.  A diagonal element is its own image.  Then how
        many elements the triangle has, and how many begin: arrays are longer.
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
    above = by_column  # its numbers are no longer wanted
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
def _places(
    pointers: Int64, columns: Int32, inner_pointers: Int64, inner_columns: Int32
) -> tuple[Int64, int, int]:
    """Where each element of a triangle stands in another, and the first that it lacks, or -1."""
    place = np.empty(len(inner_columns), np.int64)
    for i in range(len(pointers) - 1):
        q = pointers[i]
        for k in range(inner_pointers[i], inner_pointers[i + 1]):
            while q < pointers[i + 1] and columns[q] < inner_columns[k]:
                q += 1
            if q == pointers[i + 1] or columns[q] != inner_columns[k]:
                return place, i, int(inner_columns[k])
            place[k] = q
    return place, -1, -1
