"""Transforms without a device: typical kernels, and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from portable_gpu.arguments import whole
from portable_gpu.codegen.specialization import Specialization, distinct
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops.explanation import Explanation, Question, batch_extents
from portable_gpu.ops.fft import cosine, direct
from portable_gpu.ops.fft.problem import FftProblem, TransformKind
from portable_gpu.ops.fft.variants import variants
from portable_gpu.ops.variant import best_of
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

DType = np.dtype[Any]
#: The kind of transform of each operation.
KINDS: dict[str, TransformKind] = {"fft": "c2c", "rfft": "r2c"}
#: The dtypes that each operation transforms without a conversion.
DTYPES = {
    "fft": ("float32", "float64", "complex64", "complex128"),
    "rfft": ("float32", "float64"),
}


def problem(
    kind: TransformKind,
    lengths: Shape,
    dtype: DType,
    batch: Shape = (),
    axis: int | None = None,
    *,
    inverse: bool = False,
) -> FftProblem:
    """The transform of a C-ordered array into another.

    Args:
        kind: Whether input and output are complex, real, or half of a spectrum.
        lengths: The extents of the larger of input and output, without those of the batch.
        dtype: The dtype of the input.
        batch: The extents of the leading axes, which are not transformed.
        axis: The transformed axis, an index of ``lengths``; ``None`` for all.
        inverse: Whether exponents are positive.
    """
    rank = len(batch)
    places = tuple(range(len(lengths))) if axis is None else (axis,)
    whole_shape, half = (*batch, *lengths), [*batch, *lengths]
    half[rank + places[-1]] = lengths[places[-1]] // 2 + 1
    shape_in = tuple(half) if kind == "c2r" else whole_shape
    shape_out = tuple(half) if kind == "r2c" else whole_shape
    return FftProblem(
        kind=kind, from_real=kind == "c2c" and dtype.kind != "c", inverse=inverse,
        real=element(real_of(dtype)), axes=tuple(rank + place for place in places),
        lengths=tuple(lengths[place] for place in places), shape_in=shape_in, shape_out=shape_out,
        strides_in=contiguous_strides(shape_in), strides_out=contiguous_strides(shape_out),
        scaled=inverse,
    )  # fmt: skip


def real_of(dtype: DType) -> DType:
    """The real numbers of a dtype's precision."""
    return np.dtype(np.float64 if element(dtype).needs_fp64 else np.float32)


def explain(question: Question, *, batch: Shape = (), axis: int | None = None) -> Explanation:
    """Explain which kernels the transform of a C-ordered array takes, and why.

    Args:
        question: The call; its sizes are the extents of the array, without those of the batch.
        batch: The extents of the leading axes, which are not transformed.
        axis: The transformed axis, an index of ``sizes``; ``None`` for all.

    Raises:
        ArgumentError: A size is below 1, there is none, or ``axis`` is out of range.
        DTypeError: ``dtype`` is none of :data:`DTYPES`.
    """
    operation, sizes, dtype = question.operation, question.sizes, question.dtype
    if not sizes or min(sizes) < 1:
        raise ArgumentError(f"{operation} takes sizes of at least 1; got {sizes}")
    if str(dtype) not in DTYPES[operation]:
        raise DTypeError(f"{operation} takes {', '.join(DTYPES[operation])}; dtype is {dtype}")
    before, place = batch_extents(batch, 1), None if axis is None else _axis(axis, len(sizes))
    asked = problem(KINDS[operation], sizes, dtype, before, place)
    stack = "".join(f"{extent} x " for extent in before)
    every = variants(asked, question.target, question.table)
    return question.answer(every, f"{stack}({' x '.join(map(str, sizes))})", place)


def _axis(axis: int, count: int) -> int:
    place = whole(axis, "axis")
    if not -count <= place < count:
        raise ArgumentError(f"axis is {axis}; expected {-count} to {count - 1}")
    return place % count


@dataclass(frozen=True)
class _TypicalTransform:
    """A transform whose kernels are compiled as examples; attributes: see :func:`problem`."""

    lengths: Shape
    batch: Shape = ()
    axis: int | None = None


_TWO_PASSES = _TypicalTransform((1 << 20,))
#: Transforms of two axes, which some devices compute in one launch.
_PLANES = _TypicalTransform((256, 256), (64,))
#: A power of two and mixed lengths in stacks, along strided axes, by two passes, with a prime.
_COMPLEX = (
    _TypicalTransform((1024,), (1000,)),
    _TypicalTransform((1000,), (1000,)),
    _TypicalTransform((1001,), (1000,)),
    _TypicalTransform((1024, 64), (10,), 0),
    _TypicalTransform((512, 512)),
    _TWO_PASSES,
    _TypicalTransform((1009,), (1000,)),
    _PLANES,
)
_REAL: dict[TransformKind, tuple[_TypicalTransform, ...]] = {
    "r2c": (_COMPLEX[0], _COMPLEX[1], _COMPLEX[3], _TWO_PASSES, _PLANES),
    "c2r": (_COMPLEX[0], _COMPLEX[3], _TWO_PASSES),
}


def fft_specializations(target: Target, dtype: DType) -> list[Specialization]:
    """List the texts of typical transforms of complex numbers, and of convolutions by sums."""
    numbers = np.result_type(_compiled(dtype), np.complex64)
    specializations = _built(
        [problem("c2c", t.lengths, numbers, t.batch, t.axis) for t in _COMPLEX], target
    )
    return [*specializations, *_sums(numbers, target)]


def rfft_specializations(target: Target, dtype: DType) -> list[Specialization]:
    """List the texts of typical real transforms, their inverses, and steps of cosine transforms."""
    real = _compiled(dtype)
    problems = [
        problem(kind, t.lengths, real, t.batch, t.axis, inverse=kind == "c2r")
        for kind, typical in _REAL.items()
        for t in typical
    ]
    cosines = [
        cosine.specialization(kind, stage, element(real), 2, target)
        for kind in get_args(cosine.CosineKind)
        for stage in ("before", "after")
    ]
    return [*_built(problems, target), *cosines, *_sums(real, target)]


def _sums(dtype: DType, target: Target) -> list[Specialization]:
    return [direct.specialization(element(dtype), axes, 2, target) for axes in (1, 2)]


def _compiled(dtype: DType) -> DType:
    """Return the real dtype of a dtype's precision; raise UnsupportedError for other dtypes."""
    if str(dtype) not in DTYPES["fft"]:
        raise UnsupportedError(f"transforms of {dtype}")
    return real_of(dtype)


def _built(problems: Sequence[FftProblem], target: Target) -> list[Specialization]:
    table = TuningTable.shipped()
    result: list[Specialization] = []
    for p in problems:
        every = variants(p, target, table)
        fused = [variant for variant in every if variant.kind.startswith("two axes")]
        for variant in (best_of(every, target), *fused):
            result += variant.texts()
    return distinct(result)
