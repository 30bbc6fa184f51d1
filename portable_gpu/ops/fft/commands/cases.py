"""Cases of transforms: cost, variants, the same calls of other libraries, oracles."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import log10, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import CHUNK, Oracle, by_norm, widened
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.family import Contested, RandomSizes
from portable_gpu.ops.fft.call import transform
from portable_gpu.ops.fft.commands.catalogue import DTYPES, KINDS, problem, real_of
from portable_gpu.ops.fft.problem import FftProblem
from portable_gpu.ops.fft.tables import is_smooth
from portable_gpu.ops.fft.variants import variants as variants_of
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size, random_extent
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def fft_of(case: Case) -> FftProblem:
    """The transform of a case."""
    return problem(
        KINDS[case.operation], case.extents, dtype_of(case.dtype), _batch(case), case.axis
    )


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    """The shape of the input."""
    return ((*_batch(case), *case.extents),)


def options(case: Case) -> dict[str, Any]:
    """The batch, and the axis if it is one of several."""
    return {"batch": _batch(case), "axis": case.axis}


def axes_of(case: Case) -> tuple[int, ...]:
    """The transformed axes, counted from the last axis of the array."""
    count = len(case.extents)
    return tuple(range(-count, 0)) if case.axis is None else (case.axis - count,)


def call(case: Case, on_host: bool) -> PublicCall:
    """The function for one axis, or that for several."""
    axes = axes_of(case)
    if len(axes) == 1:
        return PublicCall(f"fft.{case.operation}", {"axis": axes[0]})
    return PublicCall(f"fft.{case.operation}n", {"axes": axes})


def warmed(operation: str, x: Any, axes: tuple[int, ...], engine: Engine) -> Any:
    """Run the transform along some axes, and its inverse."""
    if operation == "fft":
        spectrum = transform("c2c", _complex(x), None, axes, None, engine=engine)
        return transform("c2c", spectrum, None, axes, None, inverse=True, engine=engine)
    half = transform("r2c", x, None, axes, None, engine=engine)
    lengths = [x.shape[axis] for axis in axes]
    return transform("c2r", half, lengths, axes, None, inverse=True, engine=engine)


def _complex(x: Any) -> Any:
    return x if x.dtype.kind == "c" else x.astype(np.result_type(x.dtype, np.complex64))


def each_axis(extents: tuple[int, ...]) -> list[dict[str, Any]]:
    """All axes together, and each of several."""
    every = tuple(range(len(extents)))
    return [{"axes": axes} for axes in dict.fromkeys((every, *((axis,) for axis in every)))]


def variants(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """Yield the case for all axes, or for the axis that the variant names.

    In transforms of complex numbers a real dtype stands for the complex dtype of its precision, and
    in transforms of real numbers a complex dtype for the real one.
    """
    axes = [str(axis) for axis in range(len(case.extents))]
    if variant and variant not in axes:
        if alone:
            raise ArgumentError(
                f"{case.operation} has no variant {variant!r}; axes are {', '.join(axes)}"
            )
        return
    if case.dtype not in DTYPES["fft"]:
        if alone:
            raise ArgumentError(
                f"--dtype has {case.dtype}; {case.operation} takes {', '.join(DTYPES['fft'])}"
            )
        return
    real = real_of(dtype_of(case.dtype))
    dtype = real if KINDS[case.operation] == "r2c" else np.result_type(real, np.complex64)
    axis = int(variant) if variant and len(axes) > 1 else None
    yield replace(case, dtype=str(dtype), axis=axis)


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any]:
    """Return the call of a library's ``fft``; arguments are positional, as their names differ."""
    axes = axes_of(case)
    if len(axes) == 1:
        return partial(getattr(library.fft, case.operation), *arrays, None, axes[0])
    return partial(getattr(library.fft, f"{case.operation}n"), *arrays, None, axes)


# -- oracle


def oracle(case: Case, inputs: Operands) -> Oracle:
    """Compare with NumPy's transform in double precision, or higher if that is fast enough.

    The error of a transform of n numbers, relative to their norm, grows with log n; for random data
    with the root of log n (Schatzman, SIAM J. Sci. Comput. 17(5), 1996).
    """
    (x,) = inputs
    expected = transformed(x, axes_of(case), KINDS[case.operation] == "r2c")
    return by_norm(expected, bound_of(x.dtype, fft_of(case).lengths), axes_of(case))


def transformed(x: Array, axes: tuple[int, ...], real: bool) -> Array:
    """Return NumPy's transform of ``x`` in higher precision."""
    wide = widened(x) if x.size <= CHUNK else widened(x, np.float64)
    return np.asarray((np.fft.rfftn if real else np.fft.fftn)(wide, axes=axes))


def bound_of(dtype: np.dtype[Any], lengths: Sequence[int]) -> float:
    """The bound of a transform's error, relative to its norm.

    The errors of random data are 3 to 5 % of it, with this library as with pocketfft and FFTW.
    Lengths with primes beyond 13 take two transforms of more than twice the length: twice the
        error.
    """
    constant, growth = (5e-15, 5e-16) if element(dtype).needs_fp64 else (2e-6, 5e-7)
    bound = constant + growth * log10(prod(lengths))
    return bound if all(map(is_smooth, lengths)) else 2 * bound


def _batch(case: Case) -> tuple[int, ...]:
    return () if case.batch is None else (case.batch,)


# -- random sizes

#: The maximum of elements of an array, on a CPU (``True``) and on a GPU.
_MAX_ELEMENTS = {True: 1 << 20, False: 1 << 24}
#: The maximum length of lines in a batch, and the maximum of lines.
_MAX_BATCH_LENGTH, _MAX_LINES = 8192, 100_000
#: A quarter of the lengths are products of these numbers.
_FACTORS = (2, 2, 2, 2, 3, 3, 5, 5, 7, 11, 13)


def length(rng: random.Random, maximum: int) -> int:
    """Draw a length: a power of two, a product of small primes, or any number."""
    limit = random_extent(rng, maximum, 2)
    kind = rng.random()
    if kind < 1 / 4:
        return 1 << (limit.bit_length() - 1)
    if kind < 1 / 2:
        result = 1
        while (longer := result * rng.choice(_FACTORS)) <= limit:
            result = longer
        return max(2, result)
    return limit


def single_line(rng: random.Random, on_cpu: bool) -> Size:
    """Draw a single line."""
    return Size((length(rng, _MAX_ELEMENTS[on_cpu]),))


def lines(rng: random.Random, on_cpu: bool) -> Size:
    """Draw many lines along the last axis or the first."""
    while True:
        n, count = length(rng, _MAX_BATCH_LENGTH), random_extent(rng, _MAX_LINES, 2)
        if count * n <= _MAX_ELEMENTS[on_cpu]:
            return Size((n,), count) if rng.random() < 0.5 else Size((n, count), variant="0")


def axes(rng: random.Random, on_cpu: bool) -> Size:
    """Draw a transform along two or three axes."""
    while True:
        extents = tuple(length(rng, 4096) for _ in range(rng.choice((2, 3))))
        if prod(extents) <= _MAX_ELEMENTS[on_cpu]:
            return Size(extents)


COMPLEX = (
    RandomSizes("one line", ("complex64", "complex128"), single_line),
    RandomSizes("lines", ("complex64", "complex128"), lines),
    RandomSizes("axes", ("complex64",), axes),
)
REAL = (
    RandomSizes("one line", ("float32",), single_line),
    RandomSizes("lines", ("float32", "float64"), lines),
)


def _draw(rng: random.Random, on_cpu: bool) -> Size:
    return rng.choice(COMPLEX).draw(rng, on_cpu)


def _nbytes(case: Case) -> tuple[int, ...]:
    """The bytes of the input and of the result."""
    problem = fft_of(case)
    input_bytes = prod(problem.shape_in) * dtype_of(case.dtype).itemsize
    return input_bytes, 2 * prod(problem.shape_out) * problem.real.itemsize


CONTESTED = Contested(_draw, fft_of, variants_of, _nbytes, (1.0,), {"float32": (24, 48)})
