"""Initial values of parameters, by torch's distributions and a generator of the library's own."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np

from portable_gpu.arguments import whole
from portable_gpu.errors import ArgumentError, HostMemoryError, reraise_of_signal


class _Source:
    """The generator of initial values and of keys of random masks."""

    def __init__(self) -> None:
        self.generator = np.random.Generator(np.random.Philox(0))


_SOURCE = _Source()


def manual_seed(seed: int) -> None:
    """Restart the generator that modules draw their initial values and their seeds from.

    Modules that are made in the same order after the same seed have the same bits; it starts as
    after ``manual_seed(0)``.  The values differ from torch's.

    Raises:
        ArgumentTypeError, ArgumentError: ``seed`` is not an integer, or is negative.
    """
    if whole(seed, "seed") < 0:
        raise ArgumentError(f"seed is {seed}; expected at least 0")
    _SOURCE.generator = np.random.Generator(np.random.Philox(whole(seed, "seed")))


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """The numbers of inputs and of outputs of a weight (outputs, inputs, ...kernel), as torch's."""
    kernel = prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def filled(shape: tuple[int, ...], value: float, dtype: Any) -> np.ndarray[Any, Any]:
    """Values that are all the same."""
    return _made(shape, lambda: np.full(shape, value, dtype))


def _made(shape: tuple[int, ...], make: Callable[[], np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Return what ``make`` makes.

    Raises:
        HostMemoryError: The host has no memory for it.
    """
    try:
        return make()
    except (MemoryError, ValueError, OverflowError) as error:  # or more than NumPy can count
        reraise_of_signal(error)
        raise HostMemoryError(f"no memory for values of shape {shape}: {error}") from error


def uniform(shape: tuple[int, ...], bound: float, dtype: Any) -> np.ndarray[Any, Any]:
    """Values between ``-bound`` and ``bound``."""
    return _made(shape, lambda: _SOURCE.generator.uniform(-bound, bound, shape).astype(dtype))


def kaiming_uniform(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Torch's values of weights: ``kaiming_uniform_(a=sqrt(5))``, so ``1 / sqrt(fan_in)``."""
    return uniform(shape, 1 / sqrt(max(1, fans(shape)[0])), dtype)


def xavier_uniform(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Values of Glorot & Bengio, AISTATS 2010: the bound is ``sqrt(6 / (fan_in + fan_out))``."""
    return uniform(shape, sqrt(6 / max(1, sum(fans(shape)))), dtype)


def normal(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Values of the standard normal distribution."""
    return _made(shape, lambda: _SOURCE.generator.standard_normal(shape).astype(dtype))


def next_seed() -> int:
    """A key for random masks."""
    return int(_SOURCE.generator.integers(1 << 63))
