"""Cases of normalisations and of mean squares: operands, oracles, and the calls of PyTorch.

A case whose variant is ``backward`` is the gradient of the input, weight and bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import rounding, rounding_errors, unit
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import Oracle, within
from portable_gpu.dtypes import dtype_of, element, is_bfloat16
from portable_gpu.ops.family import BACKWARD
from portable_gpu.ops.floats import statistics_dtype
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.runtime.views import Shape

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

_GROUPS = 32  # of group normalisation, or each channel where 32 does not divide them
_EPS = 1e-5


def is_backward(case: Case) -> bool:
    """Whether it is a gradient."""
    return case.trans == BACKWARD


def traffic(forward: int, backward: int) -> Callable[[Case], int]:
    """The least traffic of a function and of its gradient, which move some arrays."""

    def nbytes(case: Case) -> int:
        arrays = backward if is_backward(case) else forward
        return arrays * prod(case.extents) * element(dtype_of(case.dtype)).itemsize

    return nbytes


def groups_of(shape: Shape) -> int:
    """The groups of a group normalisation."""
    return _GROUPS if shape[1] % _GROUPS == 0 else shape[1]


def _layout(case: Case) -> tuple[Shape, tuple[int, ...], int]:
    """The shape with an axis of groups, the axes of a row, and the axis of the parameters."""
    shape = case.extents
    if case.operation == "batch_norm":
        return shape, tuple(k for k in range(len(shape)) if k != 1), 1
    if case.operation == "group_norm":
        groups = groups_of(shape)
        grouped = (shape[0], groups, shape[1] // groups, *shape[2:])
        return grouped, tuple(range(2, len(grouped))), 1
    return shape, (len(shape) - 1,), len(shape) - 1


def shapes(case: Case) -> tuple[Shape, ...]:
    """The shapes of the arrays that are drawn: the gradient, the input, the weight, the bias."""
    *_, axis = _layout(case)
    arrays = (case.extents,) * (2 if is_backward(case) else 1)
    return (*arrays, *((case.extents[axis],),) * (1 if case.operation == "rms_norm" else 2))


def _statistics(case: Case, x: Array) -> tuple[Array, Array]:
    """The mean and the reciprocal deviation of each row, in float64 with axes of extent 1."""
    shape, axes, _ = _layout(case)
    wide = x.astype(np.float64).reshape(shape)
    eps = _eps(case)
    if case.operation == "rms_norm":
        square = (wide**2).mean(axis=axes, keepdims=True)
        return np.zeros_like(square), 1 / np.sqrt(square + eps)
    mean = wide.mean(axis=axes, keepdims=True)
    return mean, 1 / np.sqrt(((wide - mean) ** 2).mean(axis=axes, keepdims=True) + eps)


def _eps(case: Case) -> float:
    """Return the number that is added to the variance: PyTorch's default."""
    if case.operation != "rms_norm":
        return _EPS
    dtype = dtype_of(case.dtype)
    return 2.0**-7 if is_bfloat16(dtype) else float(np.finfo(dtype).eps)


def operands(case: Case, inputs: Operands) -> Operands:
    """The arrays; for a gradient also the statistics, after the input."""
    if not is_backward(case):
        return inputs
    grad, x, *parameters = inputs
    dtype = statistics_dtype(x.dtype)
    statistics = [item.astype(dtype) for item in _statistics(case, x)][
        case.operation == "rms_norm" :
    ]
    if case.operation == "batch_norm":
        statistics = [item.reshape(-1) for item in statistics]
    elif case.operation == "group_norm":
        statistics = [item.reshape(item.shape[:2]) for item in statistics]
    return (grad, x, *statistics, *parameters)


def call(case: Case, _on_host: bool) -> PublicCall:
    """Our function."""
    options: dict[str, Any] = {"normalized_shape": case.extents[-1]}
    if case.operation == "batch_norm":
        options = {"running_mean": None, "running_var": None, "training": True}
    elif case.operation == "group_norm":
        options = {"num_groups": groups_of(case.extents)}
    parameters = ("weight",) if case.operation == "rms_norm" else ("weight", "bias")
    if not is_backward(case):
        return PublicCall(f"nn.{case.operation}", options, names=("input", *parameters))
    statistics = {
        "batch_norm": ("save_mean", "save_invstd"), "rms_norm": ("rstd",),
    }.get(case.operation, ("mean", "rstd"))  # fmt: skip
    if case.operation == "batch_norm":
        options["eps"] = _EPS
    names = ("grad_output", "input", *statistics, *parameters)
    return PublicCall(f"nn.{case.operation}_backward", options, names=names)


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the same call of PyTorch."""
    functional = getattr(getattr(library, "nn", None), "functional", None)
    if functional is None:
        return None
    back, aten = is_backward(case), library.ops.aten
    name, shape, output_mask = case.operation, case.extents, [True] * 3
    if name == "batch_norm":
        if not back:
            x, weight, bias = arrays
            return partial(functional.batch_norm, x, None, None, weight, bias, True)
        grad, x, mean, rstd, weight, _ = arrays
        return partial(
            aten.native_batch_norm_backward, grad, x, weight, None, None, mean, rstd, True, _EPS,
            output_mask,
        )  # fmt: skip
    if name == "group_norm":
        if not back:
            x, weight, bias = arrays
            return partial(functional.group_norm, x, groups_of(shape), weight, bias)
        grad, x, mean, rstd, weight, _ = arrays
        return partial(
            aten.native_group_norm_backward, grad, x, mean, rstd, weight, shape[0], shape[1],
            prod(shape[2:]), groups_of(shape), output_mask,
        )  # fmt: skip
    row = shape[-1:]
    if name == "rms_norm":
        if not back:
            return partial(functional.rms_norm, arrays[0], row, arrays[1])
        grad, x, _, weight = arrays
        function = partial(functional.rms_norm, normalized_shape=row)
        return by_autograd(library, lambda x, weight: function(x, weight=weight), grad, x, weight)
    if not back:
        return partial(functional.layer_norm, arrays[0], row, *arrays[1:])
    grad, x, mean, rstd, weight, bias = arrays
    return partial(
        aten.native_layer_norm_backward, grad, x, row, mean, rstd, weight, bias, output_mask
    )


def by_autograd(
    library: Any, function: Callable[..., Any], grad: Any, *arrays: Any
) -> Callable[[], Any]:
    """A call that computes the gradients of a function by PyTorch; the graph is made only once."""
    inputs = [item.detach().requires_grad_() for item in arrays]
    result = function(*inputs)
    return partial(library.autograd.grad, result, inputs, grad, retain_graph=True)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """NumPy in double precision."""
    shape, axes, axis = _layout(case)
    dtype = dtype_of(case.dtype)
    x = inputs[1 if is_backward(case) else 0]
    mean, rstd = _statistics(case, x)
    centred = (x.astype(np.float64).reshape(shape) - mean) * rstd
    terms = prod(shape[k] for k in axes)
    along = [1] * len(case.extents)
    along[axis] = -1
    rms = case.operation == "rms_norm"
    if not is_backward(case):
        weight, *bias = (item.astype(np.float64).reshape(along) for item in inputs[1:])
        expected = centred.reshape(x.shape) * weight + sum(bias)
        size = np.abs(expected) + 8
    else:
        weight = inputs[-1 if rms else -2].astype(np.float64).reshape(along)
        grad = (inputs[0].astype(np.float64) * weight).reshape(shape)
        slope = (grad * centred).mean(axis=axes, keepdims=True)
        shift = 0.0 if rms else grad.mean(axis=axes, keepdims=True)
        result = rstd * (grad - shift - centred * slope)
        size = rstd * (np.abs(grad) + np.abs(centred) + 2)
        expected, size = result.reshape(x.shape), np.broadcast_to(size, shape).reshape(x.shape)
    bound = (np.sqrt(terms) * 8 + 64) * unit(dtype) * size + rounding_errors(dtype, expected)
    return within(expected, bound)


# -- mean squares


def squares_operands(case: Case, inputs: Operands) -> Operands:
    """The two arrays; for the gradient one number before them."""
    if not is_backward(case):
        return inputs
    return (np.ones((), inputs[0].dtype), *inputs)


def squares_call(case: Case, _on_host: bool) -> PublicCall:
    """Our function."""
    return PublicCall(f"nn.mse_loss{'_backward' * is_backward(case)}")


def squares_like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the same call of PyTorch."""
    functional = getattr(getattr(library, "nn", None), "functional", None)
    if functional is None:
        return None
    if is_backward(case):
        return partial(library.ops.aten.mse_loss_backward, *arrays, 1)
    return partial(functional.mse_loss, *arrays)


def squares_oracle(case: Case, inputs: Operands) -> Oracle:
    """NumPy in double precision."""
    x, y = (item.astype(np.float64) for item in inputs[-2:])
    dtype = dtype_of(case.dtype)
    if is_backward(case):
        expected = 2 / x.size * (x - y)
        errors = 8 * unit(dtype) * np.abs(expected) + 2 * rounding_errors(dtype, expected)
        return within(expected, errors)
    expected = np.asarray(((x - y) ** 2).mean())
    return within(expected, (8 * np.sqrt(x.size) * unit(dtype) + 2 * rounding(dtype)) * expected)
