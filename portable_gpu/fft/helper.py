"""Frequencies, shifts and lengths: NumPy's and ours, by SciPy's names."""

from __future__ import annotations

from typing import Any

from numpy.fft import fftfreq, fftshift, ifftshift, rfftfreq

from portable_gpu.arguments import whole
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.ops.fft.tables import is_smooth

__all__ = ["check_for_scipy", "fftfreq", "fftshift", "ifftshift", "next_fast_len", "rfftfreq"]


def next_fast_len(target: int, real: bool = False) -> int:  # noqa: ARG001  # the same for both
    """The least length of at least ``target`` that is a product of 2, 3, 5, 7, 11 and 13.

    Raises:
        ArgumentError: ``target`` is no whole number, or below 1.
    """
    least = whole(target, "target")
    if least < 1:
        raise ArgumentError(f"target is {target}; a length is at least 1")
    while not is_smooth(least):
        least += 1
    return least


def check_for_scipy(plan: Any, workers: Any) -> None:
    """Refuse what SciPy's functions refuse as well; otherwise ``workers`` says nothing to a device.

    Raises:
        UnsupportedError: ``plan`` is something.
        ArgumentError: ``workers`` is no whole number, or 0.
    """
    if plan is not None:
        raise UnsupportedError("plan= is not taken; portable_gpu.plan(fft, x) makes a plan to keep")
    if workers is not None and whole(workers, "workers") == 0:
        raise ArgumentError("workers must not be zero")
