"""Frequencies, shifts and lengths: NumPy's and ours, by SciPy's names."""

from __future__ import annotations

from numpy.fft import fftfreq, fftshift, ifftshift, rfftfreq

from portable_gpu.arguments import whole
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.fft.functions import check_for_scipy
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
