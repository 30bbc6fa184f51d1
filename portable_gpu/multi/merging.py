"""Partial results of reductions, and how two of them are merged, in NumPy.

Each function takes the results of two groups of elements, the first group first.  The result
of a tree of such merges depends on the tree, and not on the order in which they are computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[Any]]
#: The number of elements, a pivot near their mean, the mean of their differences from it, and the
#: sum of the squares of their distances from the mean.
Moments = tuple[Any, ...]
#: The index of an extreme element, and its value.
Extreme = tuple[Any, ...]


def in_double(values: Any) -> Values:
    """Return floats of any precision as float64 or complex128, and other dtypes as they are."""
    array = np.asarray(values)
    if array.dtype.kind in "biu":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64, copy=False)


def merged_norms(left: Any, right: Any) -> Values:
    """Return the Euclidean norm of two norms; NaN if one is, also where the other is infinite."""
    return np.asarray(np.where(np.isnan(left + right), np.nan, np.hypot(left, right)))


def merged_moments(left: Moments, right: Moments) -> Moments:
    """Return the moments of two groups, relative to the pivot of the first.

    Means are relative to pivots: if means are large, their rounding would otherwise exceed the
    differences between those of the groups.

    Source: Chan, Golub and LeVeque, Am. Stat. 37(3), 1983.
    """
    count, pivot, mean, squares = left
    other_count, other_pivot, other_mean, other_squares = right
    if not (count and other_count):
        return left if count else right
    total, difference = count + other_count, (other_pivot - pivot) + (other_mean - mean)
    weight = other_count / total
    squares = squares + other_squares + np.abs(difference) ** 2 * (count * weight)
    return total, pivot, mean + difference * weight, squares


def merged_extremes(is_better: np.ufunc, left: Extreme, right: Extreme) -> Extreme:
    """Return the better of two elements.

    Ties give the lower index; a NaN is better than every number.

    Args:
        is_better: ``np.less`` or ``np.greater``.
        left, right: Indices and values of the elements.
    """
    (index, value), (other_index, other) = left, right
    is_nan, other_is_nan = value != value, other != other
    is_tie = (value == other) | (is_nan & other_is_nan)
    is_other = (is_better(other, value) | other_is_nan) & ~is_nan | is_tie & (other_index < index)
    return np.where(is_other, other_index, index), np.where(is_other, other, value)
