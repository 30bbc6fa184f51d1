"""The typical call of each sampling function: what is explained, timed and built ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.ops.sampling.padding import pad, padding_rules
from portable_gpu.ops.sampling.problem import SamplingProblem
from portable_gpu.ops.sampling.rules import AxisRule
from portable_gpu.runtime.views import Shape, contiguous_strides


@dataclass(frozen=True)
class TypicalCall:
    """A typical call.

    Attributes:
        function: The public function.
        rules: The rules of all axes, of a shape of the input.
        kind: See :data:`portable_gpu.ops.sampling.problem.KINDS`.
        options: What the call takes beside the array.
        torch: The name and the options of the same call of ``torch.nn.functional``.
        any_dtype: Whether all dtypes are taken, not only real floating ones.
        least: The least number of axes.
    """

    function: Callable[..., Any]
    rules: Callable[[Shape], Sequence[AxisRule | None]]
    kind: str
    options: Mapping[str, Any]
    torch: tuple[str, Mapping[str, Any]]
    any_dtype: bool = False
    least: int = 3


_EDGE = (1, 1, 1, 1)

#: By the names of the functions.
TYPICAL_CALLS: dict[str, TypicalCall] = {
    "pad": TypicalCall(
        pad, lambda shape: padding_rules(shape, _EDGE, "constant"), "copy", {"pad": _EDGE},
        ("pad", {"pad": _EDGE}), any_dtype=True, least=2,
    ),
}  # fmt: skip


def problem_of(operation: str, shape: Shape, dtype: np.dtype[Any]) -> SamplingProblem:
    """The problem of the typical call on a C-ordered array.

    Raises:
        ArgumentError: The shape has too few axes.
        DTypeError: The function does not take the dtype.
    """
    geometry = TYPICAL_CALLS[operation]
    if len(shape) < geometry.least or min(shape) < 1:
        raise ArgumentError(
            f"{operation} takes {geometry.least} sizes or more, from 1 on; got {shape}"
        )
    if not geometry.any_dtype and dtype.kind != "f" and not is_float16_like(dtype):
        raise DTypeError(f"{operation} takes no {dtype}; floating-point numbers would do")
    elem = element(dtype)
    if geometry.kind == "copy" and elem.itemsize <= 8:
        elem = element(np.dtype(f"u{elem.itemsize}"))
    rules = tuple(geometry.rules(shape))
    result = tuple(
        extent if rule is None else rule.outputs for extent, rule in zip(shape, rules, strict=True)
    )
    source, target = contiguous_strides(shape), contiguous_strides(result)
    both = SamplingProblem(geometry.kind, elem, rules, result, (), 16)
    strides = (source,) * len(both.sources) + (target,) * len(both.targets)
    return SamplingProblem(geometry.kind, elem, rules, result, strides, 16)
