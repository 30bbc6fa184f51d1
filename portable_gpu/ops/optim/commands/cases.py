"""Cases of steps of optimisers: the first step of parameters of a shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import rounding, unit
from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle, within
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.optim.commands.catalogue import STATES
from portable_gpu.ops.public_call import PublicCall

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

_LR, _MOMENTUM, _EPS, _BETAS = 1e-3, 0.9, 1e-8, (0.9, 0.999)


def _states(case: Case) -> int:
    """Return the number of arrays of state: one of SGD with momentum, two of Adam."""
    return len(STATES[case.operation.removesuffix("_step")])


def _is_adam(case: Case) -> bool:
    return case.operation == "adam_step"


def nbytes(case: Case) -> int:
    """Return the bytes of a step: parameters and states read and written, gradients read."""
    itemsize = element(dtype_of(case.dtype)).itemsize
    return prod(case.extents) * (3 * itemsize + 2 * _states(case) * max(4, itemsize))


def operands(case: Case, inputs: Operands) -> Operands:
    """Return the parameters, their gradient, and states of zeros."""
    param, grad = inputs
    dtype = np.dtype(np.float32) if param.dtype.itemsize == 2 else param.dtype
    return (param, grad, *(np.zeros(param.shape, dtype) for _ in range(_states(case))))


def call(case: Case, on_host: bool) -> PublicCall:
    """Return the call of this library.  It changes the arrays, so each call makes the next step."""
    options: dict[str, Any] = {"lr": _LR, "momentum": _MOMENTUM}
    if _is_adam(case):
        options = {"lr": _LR, "step": 1, "betas": _BETAS, "eps": _EPS}
    return PublicCall(f"nn.{case.operation}", options, changes_arrays=True)


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return a step of PyTorch's fused optimiser.

    Its states have the dtype of the parameters, so there is none for 16-bit parameters.
    """
    if not hasattr(library, "optim") or dtype_of(case.dtype).itemsize == 2:
        return None
    param = library.nn.Parameter(arrays[0].clone())
    param.grad = arrays[1]
    if _is_adam(case):
        optimizer = library.optim.Adam([param], lr=_LR, betas=_BETAS, eps=_EPS, fused=True)
    else:
        optimizer = library.optim.SGD([param], lr=_LR, momentum=_MOMENTUM, fused=True)

    def step() -> Any:
        optimizer.step()
        return param.detach()

    return step


def oracle(case: Case, inputs: Operands) -> Oracle:
    """Return the function that compares the parameters with those of the first step in float64."""
    param, grad = (item.astype(np.float64) for item in inputs[:2])
    change = grad / (np.abs(grad) + _EPS) if _is_adam(case) else grad
    expected, dtype = param - _LR * change, dtype_of(case.dtype)
    magnitude = np.abs(param) + 16 * _LR
    return within(expected, (8 * unit(dtype) + 2 * rounding(dtype)) * magnitude)
