"""The scalars of kernels that drop random elements.

A kernel draws a word of 32 random bits for each element by the generator Philox, drops the elements
whose words are small, and multiplies the others.
"""

from __future__ import annotations

from typing import Any

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError

_WORDS = 1 << 32  # the number of values of a random word
_KEYS = 1 << 64  # the number of values of a key and of a stream of the generator


def probability(value: Any, name: str) -> float:
    """Return the probability that an element is dropped, as a float.

    Raises:
        ArgumentTypeError, ArgumentError: It is not a number, or is not from 0 to 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected a number from 0 to 1")
    if not 0 <= value <= 1:
        raise ArgumentError(f"{name} is {value}; expected a number from 0 to 1")
    return float(value)


def mask_scalars(rate: float, seed: Any, offset: Any) -> tuple[int, float, int, int]:
    """Return the scalars of a kernel.

    Args:
        rate: The probability that an element is dropped.
        seed: The key of the generator.
        offset: The stream of the generator: the same key has other numbers in each stream.

    Returns:
        The threshold (an element whose word is below it is dropped), the factor by which the other
        elements are multiplied, the stream and the key.

    Raises:
        ArgumentTypeError, ArgumentError: ``seed`` or ``offset`` is not an integer, or out of range.
    """
    key, stream = whole(seed, "seed"), whole(offset, "offset")
    for number, name in ((key, "seed"), (stream, "offset")):
        if not 0 <= number < _KEYS:
            raise ArgumentError(f"{name} is {shown(number)}; expected 0 to 2^64 - 1")
    return round(rate * _WORDS), 1 / (1 - rate) if rate < 1 else 0.0, stream, key
