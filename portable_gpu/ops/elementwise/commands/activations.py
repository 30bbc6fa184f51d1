"""Cases of activation functions and of their gradients, by the names of the functions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import erf, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import rounding, unit
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import Oracle, worst
from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.sizes import MATRIX, MOST_ELEMENTS, Size, random_extents

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


_CHECKED = 1 << 18  # elements: error functions of NumPy take long
_erf = np.frompyfunc(erf, 1, 1)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _normal(x: Array) -> Array:
    """The normal distribution."""
    return np.asarray((1 + _erf(x / np.sqrt(2)).astype(np.float64)) / 2)


#: The values, and the slopes as functions of what the gradient takes: the input or the result.
_VALUES: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "gelu": lambda x: x * _normal(x),
    "silu": lambda x: x * _sigmoid(x),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "softplus": lambda x: np.log1p(np.exp(x)),
}
_SLOPES: dict[str, Callable[[Array], Array]] = {
    "relu": lambda y: np.where(y > 0, 1.0, 0.0),
    "leaky_relu": lambda x: np.where(x > 0, 1, 0.01),
    "elu": lambda x: np.where(x > 0, 1, np.exp(x)),
    "sigmoid": lambda y: y * (1 - y),
    "tanh": lambda y: 1 - y * y,
    "gelu": lambda x: _normal(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * pi),
    "silu": lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    "hardswish": lambda x: np.where(np.abs(x) < 3, x / 3 + 0.5, np.where(x > 0, 1.0, 0.0)),
    "softplus": _sigmoid,
}
_BACKWARD = "_backward"
#: The functions, and their gradients.
NAMES = (*_VALUES, *(name + _BACKWARD for name in _VALUES))


def inputs_of(name: str) -> int:
    """The number of arrays that a function reads."""
    return 2 if name.endswith(_BACKWARD) else 1


def oracle(case: Case, inputs: Operands) -> Oracle:
    """NumPy in double precision, of some elements."""
    step = max(1, inputs[0].size // _CHECKED)
    few = [item.reshape(-1)[::step].astype(np.float64) for item in inputs]
    name = case.trans.removesuffix(_BACKWARD)
    if inputs_of(case.trans) == 2:
        expected = few[0] * _SLOPES[name](few[1])
    else:
        expected = _VALUES[name](few[0])
    dtype = dtype_of(case.dtype)
    bound = 32 * unit(dtype) * (1 + np.abs(expected)) + rounding(dtype) * np.abs(expected)
    return lambda found: (
        worst(found.reshape(-1)[::step], expected, bound)
        if found.shape == inputs[0].shape
        else np.inf
    )


def like_torch(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the same call of PyTorch."""
    if not hasattr(library, "nn"):
        return None
    name, aten = case.trans, library.ops.aten
    if inputs_of(name) == 1:
        return partial(getattr(library.nn.functional, name), *arrays)
    further: dict[str, tuple[Any, ...]] = {
        "leaky_relu_backward": (0.01, False),
        "softplus_backward": (1, 20),
    }
    if name == "relu_backward":
        return partial(aten.threshold_backward, *arrays, 0)
    if name == "elu_backward":
        return partial(aten.elu_backward, arrays[0], 1, 1, 1, False, arrays[1])
    return partial(getattr(aten, name), *arrays, *further.get(name, ()))


def matrix(rng: random.Random, on_cpu: bool) -> Size:
    """Two matrices of any shape."""
    return Size(random_extents(rng, MATRIX, MOST_ELEMENTS[on_cpu]))


def activation(rng: random.Random, on_cpu: bool) -> Size:
    """An activation function of a matrix of any shape, or its gradient."""
    return replace(matrix(rng, on_cpu), variant=rng.choice(NAMES))


RANDOM = (
    RandomSizes("sum of two", ("float32", "float16", "float64"), matrix),
    RandomSizes("activation", ("float32", "float16"), activation),
)
