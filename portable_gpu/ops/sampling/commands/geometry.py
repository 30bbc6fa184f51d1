"""The typical call of each sampling function: what is explained, timed and built ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.ops.sampling import pooling, resampling
from portable_gpu.ops.sampling.call import result_shape
from portable_gpu.ops.sampling.padding import pad, padding_rules
from portable_gpu.ops.sampling.pooling_calls import avg_rules, window_rules
from portable_gpu.ops.sampling.problem import SamplingProblem
from portable_gpu.ops.sampling.resampling import resize_rules
from portable_gpu.ops.sampling.rules import AxisRule, TransposedRule
from portable_gpu.runtime.views import Shape, contiguous_strides


@dataclass(frozen=True)
class TypicalCall:
    """A typical call on images.

    Attributes:
        function: The public function.
        kind: See :class:`portable_gpu.ops.sampling.problem.SamplingProblem`.
        rules: The rules of all axes of the forward call, of the shape of its input.
        options: The further arguments of the call, without arrays and the shape of a gradient.
        torch: Makes the same call in PyTorch, given the library, the shape and the arrays.
        gradient: Whether it is the gradient of the call that the rules are of.
        any_dtype: Whether all dtypes are taken, not only real floating ones.
    """

    function: Callable[..., Any]
    kind: str
    rules: Callable[[Shape], Sequence[AxisRule | None]]
    options: Mapping[str, Any]
    torch: Callable[..., Any]
    gradient: bool = False
    any_dtype: bool = False

    def arguments(self, shape: Shape) -> dict[str, Any]:
        """The options for an input of a shape."""
        return dict(self.options) | ({"input": shape} if self.gradient else {})


_EDGE = (1, 1, 1, 1)
_LARGEST = {"kernel_size": 3, "stride": 2, "padding": 1}
_TWICE: dict[str, Any] = {"scale_factor": 2, "mode": "bilinear"}


def _largest(shape: Shape) -> list[AxisRule | None]:
    return window_rules(shape, 2, (3, 2, 1, 1, False))


def _means(shape: Shape) -> list[AxisRule | None]:
    return avg_rules(shape, 2, (2, None, 0, 1, False), True, None)


def _doubled(shape: Shape) -> list[AxisRule | None]:
    return resize_rules(shape, None, 2, "bilinear")[1]


#: By the names of the functions.
TYPICAL_CALLS: dict[str, TypicalCall] = {
    "pad": TypicalCall(
        pad, "copy", lambda shape: padding_rules(shape, _EDGE, "constant"), {"pad": _EDGE},
        lambda torch, _, x: torch.nn.functional.pad(x, _EDGE), any_dtype=True,
    ),
    "max_pool2d": TypicalCall(
        pooling.max_pool2d, "max", _largest, _LARGEST,
        lambda torch, _, x: torch.nn.functional.max_pool2d(x, **_LARGEST),
    ),
    "max_pool2d_backward": TypicalCall(
        pooling.max_pool2d_backward, "routed", _largest, _LARGEST,
        lambda torch, shape, g, indices: torch.ops.aten.max_pool2d_with_indices_backward(
            g, g.new_empty(shape), [3, 3], [2, 2], [1, 1], [1, 1], False, indices
        ),
        gradient=True,
    ),
    "avg_pool2d": TypicalCall(
        pooling.avg_pool2d, "sum", _means, {"kernel_size": 2},
        lambda torch, _, x: torch.nn.functional.avg_pool2d(x, 2),
    ),
    "avg_pool2d_backward": TypicalCall(
        pooling.avg_pool2d_backward, "sum", _means, {"kernel_size": 2},
        lambda torch, shape, g: torch.ops.aten.avg_pool2d_backward(
            g, g.new_empty(shape), [2, 2], [2, 2], [0, 0], False, True, None
        ),
        gradient=True,
    ),
    "interpolate": TypicalCall(
        resampling.interpolate, "sum", _doubled, _TWICE,
        lambda torch, _, x: torch.nn.functional.interpolate(x, **_TWICE),
    ),
    "interpolate_backward": TypicalCall(
        resampling.interpolate_backward, "sum", _doubled, _TWICE,
        lambda torch, shape, g: torch.ops.aten.upsample_bilinear2d_backward(
            g, list(g.shape[2:]), list(shape), False, 2.0, 2.0
        ),
        gradient=True,
    ),
}  # fmt: skip


def problem_of(operation: str, shape: Shape, dtype: np.dtype[Any]) -> SamplingProblem:
    """The problem of the typical call on C-ordered arrays.

    Args:
        operation: The name of the function.
        shape: The shape of the input, or of the forward call's input.
        dtype: The dtype.

    Raises:
        ArgumentError: The shape has not four axes.
        DTypeError: The function does not take the dtype.
    """
    typical = TYPICAL_CALLS[operation]
    if len(shape) != 4 or min(shape) < 1:
        raise ArgumentError(
            f"{operation} takes four sizes, batch x channels x height x width; got {shape}"
        )
    if not typical.any_dtype and dtype.kind != "f" and not is_float16_like(dtype):
        raise DTypeError(f"{operation} takes no {dtype}; expected floating-point numbers")
    elem = element(dtype)
    if typical.kind == "copy" and elem.itemsize <= 8:
        elem = element(np.dtype(f"u{elem.itemsize}"))
    rules = tuple(typical.rules(shape))
    source: Shape = shape
    target = result_shape(shape, rules)
    if typical.gradient:
        source, target = target, source
        rules = tuple([None if rule is None else TransposedRule.of(rule) for rule in rules])
    named = SamplingProblem(typical.kind, elem, rules, target, (), 16)
    strides = [contiguous_strides(source)] * len(named.sources)
    strides += [contiguous_strides(target)] * len(named.targets)
    return SamplingProblem(typical.kind, elem, rules, target, tuple(strides), 16)


def channels_last(problem: SamplingProblem) -> SamplingProblem:
    """The problem of images whose channels are contiguous."""
    result = []
    for name in problem.names:
        n, c, h, w = problem.shape
        if name in problem.sources:
            axes = zip(problem.shape, problem.rules, strict=True)
            n, c, h, w = (extent if rule is None else rule.size for extent, rule in axes)
        batch, row, column, channel = contiguous_strides((n, h, w, c))
        result.append((batch, channel, row, column))
    return replace(problem, strides=tuple(result))


def operand_shapes(operation: str, shape: Shape) -> tuple[Shape, ...]:
    """The shapes of the arrays that the typical call takes."""
    typical = TYPICAL_CALLS[operation]
    if not typical.gradient:
        return (shape,)
    result = result_shape(shape, typical.rules(shape))
    return (result, result) if typical.kind == "routed" else (result,)


def indices_of(operation: str, shape: Shape) -> np.ndarray[Any, Any]:
    """Indices as a forward call gives them: of the last place of each window."""
    rules = TYPICAL_CALLS[operation].rules(shape)
    last = []
    for rule in rules:
        if rule is not None:
            counts, places, _ = rule.entries()
            last.append(places[np.cumsum(counts) - 1])
    flat = last[0][:, None] * shape[3] + last[1]
    return np.ascontiguousarray(np.broadcast_to(flat, (*shape[:2], *flat.shape)), np.int64)
