"""Cases of reductions: what they cost, their variants, and their oracles."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import rounding, unit
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import (
    CHUNK,
    Oracle,
    bound_of_sums,
    root_mean_square,
    wide_dtype,
    widened,
    within,
)
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import MATRIX, MOST_ELEMENTS, Size, random_extent, random_extents

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def flop(real: int, complex_: int, case: Case) -> int:
    """The operations: ``real`` or ``complex_`` for each element."""
    per_element = complex_ if element(dtype_of(case.dtype)).complex else real
    return per_element * prod(case.extents)


def traffic(operands: int, case: Case) -> int:
    """Bytes of the operands, and of the results where there is an axis."""
    count = operands * prod(case.extents)
    if case.axis is not None:
        count += prod(case.extents) // case.extents[case.axis]
    return count * element(dtype_of(case.dtype)).itemsize


def two_operands(case: Case) -> tuple[tuple[int, ...], ...]:
    """Shapes of two vectors."""
    return case.extents, case.extents


def options(case: Case) -> dict[str, Any]:
    """The axis, if there is one."""
    return {} if case.axis is None else {"axis": case.axis}


def each_axis(extents: tuple[int, ...]) -> list[dict[str, Any]]:
    """Options for the whole array, and for each axis of several."""
    return [{}] + [{"axis": axis} for axis in range(len(extents)) if len(extents) > 1]


def of_axes(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """The axis of the variant; without one, each axis where the whole family was asked for."""
    axes = range(len(case.extents))
    _check_batch(case)
    if variant:
        if variant not in map(str, axes):
            raise ArgumentError(
                f"{case.operation} has no variant {variant!r}; axes are {list(axes)}"
            )
        yield replace(case, axis=int(variant))
    elif len(case.extents) == 1 or alone:
        yield case
    else:
        yield from (replace(case, axis=axis) for axis in axes)


def of_all(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """The whole array, as a vector."""
    _check_batch(case)
    if variant:
        if alone:
            raise ArgumentError(f"{case.operation} has no variant {variant!r}")
        return
    if len(case.extents) == 1 or alone:
        yield replace(case, extents=(prod(case.extents),))


def _check_batch(case: Case) -> None:
    if case.batch is not None:
        raise ArgumentError(f"{case.operation} takes no batch; give a shape, such as 4096x4096")


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any]:
    """The function of the same name."""
    return partial(getattr(library, case.operation), *arrays, **options(case))


def norm_like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any]:
    """The 2-norm."""
    return partial(library.linalg.norm, *arrays)


def spread_like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any]:
    """``var`` and ``std``, which PyTorch by default divides by one less."""
    same = {"correction": 0} if library.__name__ == "torch" else {}
    return partial(getattr(library, case.operation), *arrays, **options(case), **same)


def largest_like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any]:
    """``amax``: PyTorch's ``max`` along an axis finds the places too."""
    return partial(library.amax, *arrays, **options(case))


def largest(case: Case, inputs: Operands) -> Oracle:
    """The largest values, exactly."""
    values = inputs[0].max(case.axis)
    return lambda found: 0.0 if np.array_equal(found, values) else np.inf


def place_of_largest(case: Case, inputs: Operands) -> Oracle:
    """Places of the largest values, exactly."""
    x = inputs[0] if case.axis is not None else inputs[0].reshape(-1)
    values = x.max(case.axis or 0, keepdims=True)

    def error(found: Array) -> float:
        length = x.shape[case.axis or 0]
        misfit = found.shape != values.squeeze(case.axis or 0).shape
        if misfit or np.any((found < 0) | (found >= length)):
            return np.inf
        places = np.expand_dims(np.asarray(found), case.axis or 0)
        there = np.take_along_axis(x, places, case.axis or 0)
        return 0.0 if np.array_equal(there, values) else np.inf

    return error


def mean(case: Case, inputs: Operands) -> Oracle:
    """The mean in higher precision."""
    x, dtype = inputs[0], dtype_of(case.dtype)
    expected = np.asarray(x.mean(case.axis, dtype=wide_dtype(dtype)))
    terms = x.size // max(1, expected.size)
    bound = bound_of_sums(dtype, terms, root_mean_square(dtype), expected * terms) / terms
    return within(expected, bound)


def variance(case: Case, inputs: Operands) -> Oracle:
    """The variance or its root in higher precision.

    A mean that is off by e makes the variance off by e^2, and each deviation by e.
    """
    x, dtype = inputs[0], dtype_of(case.dtype)
    wide = x.astype(wide_dtype(dtype), copy=False)
    expected = np.asarray(wide.var(case.axis))
    terms = x.size // max(1, expected.size)
    off = 8 * unit(dtype) * root_mean_square(dtype)
    bound = 8 * unit(dtype) * sqrt(terms) * expected + 2 * np.sqrt(expected) * off + off**2
    if case.operation == "std":
        expected, wider = np.sqrt(expected), np.sqrt(expected + bound)
        bound = wider - expected
    return within(expected, np.asarray(bound + 4 * rounding(dtype) * expected))


def total(case: Case, inputs: Operands) -> Oracle:
    """The sum in higher precision."""
    x, axis = inputs[0], case.axis
    dtype = dtype_of(case.dtype)
    if axis is None:
        expected, terms = _folded(inputs), x.size
    else:
        expected, terms = np.asarray(x.sum(axis, dtype=wide_dtype(dtype))), x.shape[axis]
    return within(expected, bound_of_sums(dtype, terms, root_mean_square(dtype), expected))


def inner(case: Case, inputs: Operands) -> Oracle:
    """The inner product in higher precision."""
    expected, dtype = _folded(inputs), dtype_of(case.dtype)
    scale = root_mean_square(dtype) ** 2
    return within(expected, bound_of_sums(dtype, inputs[0].size, scale, expected))


def norm(case: Case, inputs: Operands) -> Oracle:
    """The 2-norm in higher precision: squares have a mean, so the relative error is u sqrt(n)."""
    expected = np.sqrt(_folded(inputs, squares=True).real)
    dtype = dtype_of(case.dtype)
    share = 8 * unit(dtype) * sqrt(inputs[0].size) + rounding(dtype)
    return within(np.asarray(expected), np.asarray(share * np.abs(expected)))


def _folded(inputs: Operands, squares: bool = False) -> Array:
    """The sum of the operand, of its absolute squares, or of products of several operands."""
    flat = [array.reshape(-1) for array in inputs]
    result = np.zeros((), wide_dtype(flat[0].dtype))
    for i in range(0, flat[0].size, CHUNK):
        parts = [widened(array[i : i + CHUNK]) for array in flat]
        parts += [parts[0].conj()] if squares else []
        result = result + prod(parts[1:], start=parts[0]).sum()
    return np.asarray(result)


_DTYPES = ("float32", "float16", "float64")


def whole(rng: random.Random, on_cpu: bool) -> Size:
    """A vector."""
    return Size((random_extent(rng, MOST_ELEMENTS[on_cpu]),))


def along_an_axis(rng: random.Random, on_cpu: bool) -> Size:
    """A matrix of any shape; the variant is one of its axes."""
    extents = random_extents(rng, MATRIX, MOST_ELEMENTS[on_cpu])
    return Size(extents, variant=rng.choice("01"))


WHOLE = RandomSizes("of all", _DTYPES, whole)
ALONG_AN_AXIS = RandomSizes("along an axis", _DTYPES, along_an_axis)
