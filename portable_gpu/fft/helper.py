"""Frequencies, shifts and lengths: NumPy's and ours, by SciPy's names."""

from __future__ import annotations

from functools import lru_cache

from numpy.fft import fftfreq, fftshift, ifftshift, rfftfreq

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import ArgumentError

__all__ = [
    "fftfreq",
    "fftshift",
    "ifftshift",
    "next_fast_len",
    "prev_fast_len",
    "rfftfreq",
]

_LONGEST = 1 << 60


def next_fast_len(target: int, real: bool = False) -> int:  # noqa: ARG001  # the same for both
    """The least length of at least ``target`` that is a product of 2, 3, 5, 7, 11 and 13.

    Raises:
        ArgumentTypeError: ``target`` is no whole number.
        ArgumentError: It is below 1, or beyond 2^60.
    """
    min_length = _length(target)
    return min(
        odd << max(0, -(-min_length // odd) - 1).bit_length()
        for odd in _odd_lengths(2 * min_length)
    )


def prev_fast_len(target: int, real: bool = False) -> int:  # noqa: ARG001  # the same for both
    """The greatest length of at most ``target`` that is a product of 2, 3, 5, 7, 11 and 13.

    Raises:
        ArgumentTypeError: ``target`` is no whole number.
        ArgumentError: It is below 1, or beyond 2^60.
    """
    max_length = _length(target)
    return max(odd << (max_length // odd).bit_length() - 1 for odd in _odd_lengths(max_length))


def _length(target: int) -> int:
    length = whole(target, "target")
    if not 1 <= length <= _LONGEST:
        raise ArgumentError(f"target is {shown(target)}; a length is 1 to 2^60")
    return length


@lru_cache(maxsize=16)
def _odd_lengths(max_length: int) -> tuple[int, ...]:
    """Products of 3, 5, 7, 11 and 13 of at most ``max_length``."""
    result = [1]
    for prime in (3, 5, 7, 11, 13):
        previous = result
        while previous:
            previous = [length * prime for length in previous if length * prime <= max_length]
            result += previous
    return tuple(result)
