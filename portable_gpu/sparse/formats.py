"""The formats and dtypes of SciPy's sparse matrices, and the dtypes of their factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from portable_gpu.arguments import shown
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ShapeError,
    reraise_of_signal,
)

Values = np.ndarray[Any, np.dtype[Any]]
#: The dtypes of factors; integers and booleans are converted to float64.
DTYPES = tuple(np.dtype(t) for t in ("float32", "float64", "complex64", "complex128"))


def rows_of(A: Any) -> int:
    """Return the number of rows of a matrix; raise if it cannot be analysed.

    Raises:
        ShapeError: It is not square.
        DTypeError: It is not a sparse matrix, or its dtype is not supported.
        ArgumentError: It has 2^31 - 1 or more rows.
    """
    value_dtype(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"A has the shape {A.shape}; expected a square matrix")
    n = int(A.shape[0])
    if n >= 2**31 - 1:
        raise ArgumentError(f"A has {n} rows; fewer than 2^31 - 1 are taken")
    return n


def parts_of(A: Any) -> tuple[str, Values, Values, Values]:
    """Return the format of a matrix, the two arrays of its indices, and its values.

    Raises:
        ShapeError, DTypeError, ArgumentError: As :func:`rows_of`; or the matrix is damaged.
    """
    n, dtype = rows_of(A), value_dtype(A)
    if A.format in ("csr", "csc"):
        _check_compressed(A, n)
        stored = int(A.indptr[-1])
        return A.format, A.indptr, A.indices[:stored], A.data[:stored].astype(dtype, copy=False)
    padded = A.format in ("bsr", "dia")
    if A.format in ("dia", "lil") and not _fits(A, n):
        raise ArgumentError(f"A is a damaged matrix of the format {A.format}: its arrays differ")
    try:
        A = A.tocoo()
        if padded:
            A.eliminate_zeros()
    except Exception as error:  # formats raise different types for arrays that do not fit
        reraise_of_signal(error)
        raise ArgumentError(f"A is a damaged matrix of the format {A.format}: {error}") from error
    for index in (A.row, A.col):
        if index.shape != A.data.shape or index.dtype.kind not in "iu":
            raise ArgumentError(
                f"A is damaged: {A.data.shape} values, and indices of the shape {index.shape} and "
                f"the dtype {index.dtype}"
            )
    return "coo", A.row, A.col, A.data.astype(dtype, copy=False)


def _fits(A: Any, n: int) -> bool:
    """Return whether the values' diagonals, or lists, have the lengths of their indices."""
    if A.format == "dia":
        return A.offsets.ndim == 1 and A.data.ndim == 2 and len(A.offsets) == len(A.data)
    return A.rows.shape == A.data.shape == (n,) and all(
        len(row) == len(values) for row, values in zip(A.rows, A.data, strict=True)
    )


def _check_compressed(A: Any, n: int) -> None:
    """Raise if the arrays of compressed rows, or columns, are inconsistent."""
    pointers, indices, data = A.indptr, A.indices, A.data
    fault = ""
    if {pointers.ndim, indices.ndim, data.ndim} != {1}:
        fault = "indptr, indices and data have one axis each"
    elif pointers.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        fault = f"indptr is {pointers.dtype}, and indices are {indices.dtype}; both are integers"
    elif len(pointers) != n + 1:
        fault = f"indptr has {len(pointers)} numbers; {n + 1} are needed"
    elif pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
        fault = "indptr begins with 0, and its numbers never fall"
    elif pointers[-1] > min(len(indices), len(data)):
        fault = (
            f"indptr ends with {pointers[-1]}, and there are {len(indices)} indices and "
            f"{len(data)} values"
        )
    if fault:
        raise ArgumentError(f"A is a damaged matrix of the format {A.format}: {fault}")


def value_dtype(A: Any) -> np.dtype[Any]:
    """Return the dtype in which a sparse matrix's values are factorised.

    Raises:
        DTypeError: `A` is not a sparse matrix, or its dtype is not supported.
    """
    if not scipy.sparse.issparse(A):
        raise ArgumentTypeError(
            f"A is {type(A).__name__}; expected a scipy.sparse array or matrix "
            "(scipy.sparse.csr_array(A) makes one of a dense array)"
        )
    return dtype_of_values(A.dtype, "A has")


def dtype_of_values(given: np.dtype[Any], subject: str) -> np.dtype[Any]:
    """Return the dtype to which values are converted.

    Raises:
        DTypeError: The dtype is not supported; the message begins with ``subject``.
    """
    dtype = given.newbyteorder("=")
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype not in DTYPES:
        accepted = ", ".join(map(str, DTYPES))
        raise DTypeError(
            f"{subject} the dtype {given}; {accepted} are taken, and integers as float64"
        )
    return dtype


def factor_dtype(dtype: Any) -> np.dtype[Any]:
    """Return `dtype` as a NumPy dtype; raise if it is not supported."""
    try:
        kind: np.dtype[Any] | None = np.dtype(dtype)
    except Exception as error:  # objects that are not dtype raise different types
        reraise_of_signal(error)
        kind = None
    if kind is None or kind not in DTYPES or dtype is None:  # None equals float64 for NumPy
        accepted = ", ".join(map(str, DTYPES))
        description = shown(dtype) if kind is None else kind
        raise DTypeError(f"dtype is {description}; {accepted} are factorised")
    return kind


def is_narrower(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether one dtype has less precision than another."""
    return bool(np.finfo(dtype).eps > np.finfo(other).eps)


def expanded(kind: str, first: Values, second: Values) -> tuple[Values, Values]:
    """Return the row and the column of each stored value."""
    if kind == "coo":
        return first, second
    line = np.repeat(np.arange(len(first) - 1, dtype=np.int32), np.diff(first))
    return (line, second) if kind == "csr" else (second, line)
