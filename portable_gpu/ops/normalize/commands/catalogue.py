"""The explanation of a call on rows, and the kernels of typical ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np

from portable_gpu.arguments import whole
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.floats import statistics_dtype
from portable_gpu.ops.normalize import targets
from portable_gpu.ops.normalize.channels import channels_kernel
from portable_gpu.ops.normalize.cpu_channels import cpu_channels_kernel
from portable_gpu.ops.normalize.cpu_planes import cpu_planes_kernel
from portable_gpu.ops.normalize.plan import variants
from portable_gpu.ops.normalize.problem import RowProblem, row_problem
from portable_gpu.ops.normalize.programs import program
from portable_gpu.ops.variant import best_texts
from portable_gpu.runtime.views import Shape, View, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


def contiguous(
    name: str,
    shape: Shape,
    axes: Iterable[int],
    dtype: np.dtype[Any],
    flags: frozenset[str] = frozenset(),
) -> RowProblem:
    """The problem of a program on C-ordered arrays, along some axes."""
    p, strides, along = program(name, flags), contiguous_strides(shape), frozenset(axes)
    kept_shape = tuple(size for k, size in enumerate(shape) if k not in along)
    remaining = iter(contiguous_strides(kept_shape))
    of_rows = tuple(0 if k in along else next(remaining) for k in range(len(shape)))
    params = strides_along(shape, max(along))
    wide = statistics_dtype(dtype)
    spread: dict[str, Shape] = {}
    views = []
    for operand in p.operands:
        item = dtype
        spread[operand] = strides
        if operand in p.row_names:
            spread[operand] = of_rows
            item = np.dtype(np.int64) if operand == p.index else wide
        elif operand in ("w", "b"):
            spread[operand] = params
        views.append(View(None, 0, shape, strides, item))
    scalars = (1.0,) * (len(p.scalars) + len(p.integers))
    return row_problem(name, flags, shape, along, views, spread, scalars, 16)


def strides_along(shape: Shape, axis: int) -> Shape:
    """Return the strides of a vector along one axis."""
    return tuple(int(k == axis) for k in range(len(shape)))


def along_dim(shape: Shape, dim: int = -1) -> tuple[Shape, frozenset[int]]:
    """Return the shape, and the axis of a row.

    Raises:
        ArgumentError: There is no such axis.
    """
    axis = whole(dim, "dim")
    if not -len(shape) <= axis < len(shape):
        raise ArgumentError(f"dim is {axis}; the array has {len(shape)} axes")
    return shape, frozenset((axis % len(shape),))


def explainer(
    name: str,
    flags: frozenset[str] = frozenset(),
    layout: Callable[..., tuple[Shape, frozenset[int]]] = along_dim,
) -> Callable[..., Explanation]:
    """Return the explainer of a function by its program.

    Args:
        name, flags: Those of the program.
        layout: Gives the shape and the axes of a row for the shape of the input and the options.
    """

    def explain(question: Question, **options: Any) -> Explanation:
        """Which kernels a call on a C-ordered array takes, and why.

        Raises:
            ArgumentError: There is no size, one is 0, or an option is wrong.
            DTypeError: ``dtype`` is not a real floating dtype.
        """
        _check(question)
        shape, axes = layout(question.sizes, **options)
        problem = contiguous(name, shape, axes, question.dtype, flags)
        every = variants(problem, question.target, question.table)
        return question.answer(every, axis=options.get("dim"))

    return explain


def _check(question: Question) -> None:
    operation, shape, elem = question.operation, question.sizes, question.elem
    if not shape or not prod(shape):
        raise ArgumentError(f"{operation} takes the sizes of an array, at least 1; got {shape}")
    if elem.complex or not elem.floating:
        raise DTypeError(f"{operation} takes no {question.dtype}; expected float32 or float16")


def builder(
    name: str, flags: frozenset[str] = frozenset()
) -> Callable[[Target, np.dtype[Any]], list[Specialization]]:
    """The kernels of calls of a function on typical shapes."""

    def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
        if element(dtype).complex or not element(dtype).floating:
            return []
        shapes: tuple[Shape, ...] = ((4096, 64), (4096, 1000), (4, 1 << 20), (64, 64, 64))
        problems = [contiguous(name, shape, (1,), dtype, flags) for shape in shapes]
        table = TuningTable.shipped()
        texts = best_texts([variants(p, target, table) for p in problems], target)
        if program(name, flags).index:
            texts.append(targets.specialization(target, element(np.int64), 1))
        return texts

    return specializations


def with_channels(
    texts: Callable[[Target, np.dtype[Any]], list[Specialization]],
) -> Callable[[Target, np.dtype[Any]], list[Specialization]]:
    """Add kernels of groups of channels to the kernels of ``texts``.

    They are that of gradients on GPUs, and on CPUs those where channels are neighbours and that of
    gradients where channels are planes.
    """

    def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
        result = texts(target, dtype)
        if result:
            problem = contiguous("norm_backward", (1 << 12, 1 << 12), (1,), dtype, frozenset())
            kernel = channels_kernel(problem, target, TuningTable.shipped())
            result += [kernel.specialization(target)] if kernel else []
            for name, flags in _OF_GROUPS.items():
                result += _side_by_side(name, flags, target, dtype)
            result += _of_planes(target, dtype)
        return result

    return specializations


#: The programs of group normalisation and its gradient, with weight and bias.
_OF_GROUPS = {
    "norm": frozenset(("w", "b", "stats")),
    "norm_backward": frozenset(("w", "dw_parts", "db_parts")),
}


def _side_by_side(
    name: str, flags: frozenset[str], target: Target, dtype: np.dtype[Any]
) -> list[Specialization]:
    """The kernels of groups of neighbouring channels."""
    problem = _groups(name, flags, dtype, lambda channels, places: (1, channels))
    kernel = cpu_channels_kernel(problem, target, TuningTable.shipped())
    if kernel is None:
        return []
    return [kernel.specialization(target, part) for part in kernel.kernel_parts]


def _of_planes(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernel of the gradient of groups of channels that are planes."""
    name = "norm_backward"
    problem = _groups(name, _OF_GROUPS[name], dtype, lambda channels, places: (places, 1))
    kernel = cpu_planes_kernel(problem, target, TuningTable.shipped())
    return [kernel.specialization(target)] if kernel else []


def _groups(
    name: str,
    flags: frozenset[str],
    dtype: np.dtype[Any],
    layout: Callable[[int, int], tuple[int, int]],
) -> RowProblem:
    """The problem of 8 images of 28 x 28 places, with 32 groups of two channels.

    ``layout`` gives the strides of channels and of places for the numbers of both.
    """
    _, groups, group_channels, places = shape = (8, 32, 2, 28 * 28)
    channels = groups * group_channels
    along, step = layout(channels, places)
    of_images = (channels * places, group_channels * along, along, step)
    steps = dict.fromkeys(("x", "y", "dy", "dx"), of_images)
    steps |= dict.fromkeys(("w", "b"), (0, group_channels, 1, 0))
    steps |= dict.fromkeys(("mean", "rstd"), (groups, 1, 0, 0))
    steps |= dict.fromkeys(("dw_parts", "db_parts"), (channels, group_channels, 1, 0))
    wide, p = statistics_dtype(dtype), program(name, flags)
    stored = dict.fromkeys((*p.row_names, *p.sums), wide)
    views = [View(None, 0, shape, steps[n], stored.get(n, dtype)) for n in p.operands]
    numbers = (1.0,) * len(p.scalars)
    return row_problem(name, flags, shape, frozenset({2, 3}), views, steps, numbers, 16)
