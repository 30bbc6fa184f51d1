"""Transforms with no device at hand: typical kernels, and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from portable_gpu.arguments import of_kind, whole
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops.explanation import Explanation, explanation
from portable_gpu.ops.fft import cosine, direct
from portable_gpu.ops.fft.problem import FftProblem, Kind
from portable_gpu.ops.fft.variants import variants
from portable_gpu.ops.variant import best_of
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

DType = np.dtype[Any]
#: What each operation is a transform from, and what of.
KINDS: dict[str, Kind] = {"fft": "c2c", "rfft": "r2c"}
#: What each takes as it is.
DTYPES = {
    "fft": ("float32", "float64", "complex64", "complex128"),
    "rfft": ("float32", "float64"),
}


def problem(
    kind: Kind,
    lengths: Shape,
    dtype: DType,
    batch: Shape = (),
    axis: int | None = None,
    *,
    inverse: bool = False,
) -> FftProblem:
    """The transform of a C-ordered array into another.

    Args:
        kind: What it is made from, and what of.
        lengths: Extents of the real or complex side behind the batch's.
        dtype: Of the input.
        batch: Extents of the axes before, which are not transformed.
        axis: The one of ``lengths`` that is; all of them without it.
        inverse: Whether exponents are positive.
    """
    rank = len(batch)
    places = tuple(range(len(lengths))) if axis is None else (axis,)
    whole_shape, half = (*batch, *lengths), [*batch, *lengths]
    half[rank + places[-1]] = lengths[places[-1]] // 2 + 1
    shape_in = tuple(half) if kind == "c2r" else whole_shape
    shape_out = tuple(half) if kind == "r2c" else whole_shape
    return FftProblem(
        kind, kind == "c2c" and dtype.kind != "c", inverse, element(real_of(dtype)),
        tuple(rank + place for place in places), tuple(lengths[place] for place in places),
        shape_in, shape_out, contiguous_strides(shape_in), contiguous_strides(shape_out),
        scaled=inverse,
    )  # fmt: skip


def real_of(dtype: DType) -> DType:
    """The real numbers of a dtype's precision."""
    return np.dtype(np.float64 if element(dtype).needs_fp64 else np.float32)


def explain(
    operation: str,
    sizes: Sequence[int],
    dtype: DType,
    target: Target,
    table: TuningTable,
    *,
    batch: Shape = (),
    axis: int | None = None,
) -> Explanation:
    """Which kernels the transform of a C-ordered array takes, and why.

    Args:
        operation: ``fft`` or ``rfft``.
        sizes: The array's extents, behind those of the batch.
        dtype: Of the array.
        target, table: For what device, and what was measured on it.
        batch: Extents of the axes before.
        axis: The one of ``sizes`` that is transformed; all of them without it.

    Raises:
        ArgumentError: A size is below 1, there is none, or ``axis`` is none of theirs.
        DTypeError: ``dtype`` is none of :data:`DTYPES`.
    """
    if not sizes or min(sizes) < 1:
        raise ArgumentError(f"{operation} takes sizes from 1 on; got {tuple(sizes)}")
    if str(dtype) not in DTYPES[operation]:
        raise DTypeError(f"{operation} takes {', '.join(DTYPES[operation])}; dtype is {dtype}")
    before, place = _batch(batch), None if axis is None else _axis(axis, len(sizes))
    asked = problem(KINDS[operation], tuple(sizes), dtype, before, place)
    stack = "".join(f"{extent} x " for extent in before)
    along = "" if place is None else f" along axis {place}"
    named = (
        f"{operation} of {stack}({' x '.join(map(str, sizes))}) {dtype}{along} "
        f"on {target.facts.name}"
    )
    return explanation(named, variants(asked, target, table), target)


def _batch(batch: Shape) -> Shape:
    found = tuple(whole(one, "an extent of batch") for one in of_kind(batch, tuple, "batch"))
    if min(found, default=1) < 1:
        raise ArgumentError(f"batch is {found}; extents from 1 on would do")
    return found


def _axis(axis: int, count: int) -> int:
    place = whole(axis, "axis")
    if not -count <= place < count:
        raise ArgumentError(f"axis is {axis}; of {count} sizes, {-count} to {count - 1} would do")
    return place % count


@dataclass(frozen=True)
class _Typical:
    """A problem whose kernels stand for others: see :func:`problem`."""

    lengths: Shape
    batch: Shape = ()
    axis: int | None = None


_TWO_PASSES = _Typical((1 << 20,))
#: Of two axes, which some devices transform in one launch.
_PLANES = _Typical((256, 256), (64,))
#: A power of two and mixed lengths in stacks, along strided axes, by two passes, with a prime.
_COMPLEX = (
    _Typical((1024,), (1000,)),
    _Typical((1000,), (1000,)),
    _Typical((1001,), (1000,)),
    _Typical((1024, 64), (10,), 0),
    _Typical((512, 512)),
    _TWO_PASSES,
    _Typical((1009,), (1000,)),
    _PLANES,
)
_REAL: dict[Kind, tuple[_Typical, ...]] = {
    "r2c": (_COMPLEX[0], _COMPLEX[1], _COMPLEX[3], _TWO_PASSES, _PLANES),
    "c2r": (_COMPLEX[0], _COMPLEX[3], _TWO_PASSES),
}


def fft_specializations(target: Target, dtype: DType) -> list[Specialization]:
    """What typical transforms of complex numbers build by default, and convolutions by sums."""
    numbers = np.result_type(_compiled(dtype), np.complex64)
    found = _built([problem("c2c", t.lengths, numbers, t.batch, t.axis) for t in _COMPLEX], target)
    return [*found, *_sums(numbers, target)]


def rfft_specializations(target: Target, dtype: DType) -> list[Specialization]:
    """The same of real numbers, and back; what cosine transforms have before and after them."""
    real = _compiled(dtype)
    problems = [
        problem(kind, t.lengths, real, t.batch, t.axis, inverse=kind == "c2r")
        for kind, typical in _REAL.items()
        for t in typical
    ]
    cosines = [
        cosine.text(kind, stage, element(real), 2, target)
        for kind in get_args(cosine.Kind)
        for stage in ("before", "after")
    ]
    return [*_built(problems, target), *cosines, *_sums(real, target)]


def _sums(dtype: DType, target: Target) -> list[Specialization]:
    return [direct.text(element(dtype), axes, 2, target) for axes in (1, 2)]


def _compiled(dtype: DType) -> DType:
    """The real numbers of a dtype; what is not compiled is unsupported, as of every family."""
    if str(dtype) not in DTYPES["fft"]:
        raise UnsupportedError(f"transforms of {dtype}")
    return real_of(dtype)


def _built(problems: Sequence[FftProblem], target: Target) -> list[Specialization]:
    table = TuningTable.shipped()
    found: list[Specialization] = []
    for p in problems:
        every = variants(p, target, table)
        both = [one for one in every if one.kind.startswith("two axes")]
        for one in (best_of(every, target), *both):
            found += one.texts()
    return list({spec.key: spec for spec in found}.values())
