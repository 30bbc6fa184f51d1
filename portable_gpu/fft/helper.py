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
        DTypeError: ``target`` is no whole number.
        ArgumentError: It is below 1, or beyond 2^60.
    """
    least = _length(target)
    return min(odd << max(0, -(-least // odd) - 1).bit_length() for odd in _odd_lengths(2 * least))


def prev_fast_len(target: int, real: bool = False) -> int:  # noqa: ARG001  # the same for both
    """The greatest length of at most ``target`` that is a product of 2, 3, 5, 7, 11 and 13.

    Raises:
        DTypeError: ``target`` is no whole number.
        ArgumentError: It is below 1, or beyond 2^60.
    """
    most = _length(target)
    return max(odd << (most // odd).bit_length() - 1 for odd in _odd_lengths(most))


def _length(target: int) -> int:
    length = whole(target, "target")
    if not 1 <= length <= _LONGEST:
        raise ArgumentError(f"target is {shown(target)}; a length is 1 to 2^60")
    return length


@lru_cache(maxsize=16)
def _odd_lengths(most: int) -> tuple[int, ...]:
    """Products of 3, 5, 7, 11 and 13 of at most ``most``."""
    found = [1]
    for prime in (3, 5, 7, 11, 13):
        last = found
        while last:
            last = [one * prime for one in last if one * prime <= most]
            found += last
    return tuple(found)
