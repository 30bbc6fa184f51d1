"""Frequencies, shifts and lengths: NumPy's and ours, by SciPy's names."""

from __future__ import annotations

import os
from functools import lru_cache
from operator import index
from typing import Any

from numpy.fft import fftfreq, fftshift, ifftshift, rfftfreq

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import ArgumentError, UnsupportedError

__all__ = [
    "check_for_scipy",
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


def one_length(n: Any) -> tuple[int] | None:
    """The length of a transform along one axis, for :func:`portable_gpu.ops.fft.api.transform`.

    Raises:
        ArgumentError: It is no whole number, or below 1.
    """
    if n is None:
        return None
    try:
        length = 0 if isinstance(n, bool) else index(n)
    except TypeError:
        length = 0
    if length < 1:
        raise ArgumentError(f"invalid number of data points: n is {shown(n)}, an integer from 1 on")
    return (length,)


def check_for_scipy(plan: Any, workers: Any) -> None:
    """Refuse what SciPy's functions refuse as well; otherwise ``workers`` says nothing to a device.

    Raises:
        UnsupportedError: ``plan`` is something.
        DTypeError: ``workers`` is no whole number.
        ArgumentError: It is 0, or below minus the number of processors.
    """
    if plan is not None:
        raise UnsupportedError(
            "a precomputed plan is not taken; portable_gpu.plan(fft, x) makes a plan to call"
        )
    if workers is None:
        return
    least = -(os.cpu_count() or 1)
    count = whole(workers, "workers")
    if count == 0:
        raise ArgumentError("workers must not be zero")
    if count < least:
        raise ArgumentError(f"workers value out of range: {count}, must not be less than {least}")
