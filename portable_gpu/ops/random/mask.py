"""The numbers of a random mask: which words of Philox drop an element, and the factor of others."""

from __future__ import annotations

from typing import Any

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError

_WORDS = 1 << 32
_KEYS = 1 << 64


def probability(value: Any, name: str) -> float:
    """The probability that an element is dropped.

    Raises:
        ArgumentTypeError, ArgumentError: It is not a number, or not from 0 to 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected a number from 0 to 1")
    if not 0 <= value <= 1:
        raise ArgumentError(f"{name} is {value}; expected a number from 0 to 1")
    return float(value)


def mask_scalars(rate: float, seed: Any, offset: Any) -> tuple[int, float, int, int]:
    """The scalars of kernels: words below the first drop; the factor; the stream; the key.

    Raises:
        ArgumentTypeError, ArgumentError: ``seed`` or ``offset`` is not an integer, or out of range.
    """
    key, stream = whole(seed, "seed"), whole(offset, "offset")
    for number, name in ((key, "seed"), (stream, "offset")):
        if not 0 <= number < _KEYS:
            raise ArgumentError(f"{name} is {shown(number)}; expected 0 to 2^64 - 1")
    return round(rate * _WORDS), 1 / (1 - rate) if rate < 1 else 0.0, stream, key
