"""The transforms that commands know by name, with the arguments of ``scipy.fft``.

The others, made of the same :func:`~portable_gpu.ops.fft.api.transform`, are
:mod:`portable_gpu.fft`'s.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from portable_gpu.ops.fft.api import LONGEST, transform
from portable_gpu.runtime.engine import Engine


def fft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The transform of each line of ``x`` along ``axis``: X[k] = sum_j x[j] exp(-2 pi i j k / n).

    Args:
        x: Array of any shape and strides: float32, float64, complex64, complex128; float16 is
            computed as float32, integers and bool as float64.
        n: Length of the transform: ``x`` is cut off, or continued by zeros.  Default: what ``x``
            has along ``axis``.
        axis: The axis.
        norm: ``"backward"`` (the default): scale the inverse by 1 / n; ``"forward"``: this one;
            ``"ortho"``: both by 1 / sqrt(n).
        overwrite_x: Whether ``x`` may be destroyed: where it fits, the result takes its memory.
        workers: Taken for SciPy's sake; a device uses all that it has.
        plan: Likewise; must be ``None``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        Complex array of n numbers along ``axis``: complex64 of single precision, else complex128;
        of NumPy (done) for NumPy's arrays, on the device (enqueued) for the device's.

    Raises:
        ArgumentError: n < 1, or an unknown ``norm``.
        AxisError: ``axis`` is out of range.
        DTypeError: ``x`` holds no numbers, or long doubles.
        UnsupportedError: Double precision on a device without it.
        DeviceMemoryError: There is no room for the result or what lies between two passes.

    Cost: 5 n log2 n flop a line; memory is read and written once where scratch holds a line,
        else twice; lengths with a prime beyond 13 take about ten times as long (Bluestein).
    Accuracy: relative error in the 2-norm of about 0.2 eps log2 n; twiddles are computed by the
        host in extended precision.
    Order: the same bits for one target, policy, shape and alignment.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, one_length(n), one_axis(axis), norm, inverse=False,
        overwrite_x=overwrite_x, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def rfft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The transform of real numbers: the n // 2 + 1 first ones of :func:`fft`, at half its work.

    The others are their conjugates.  Arguments, errors, accuracy: see :func:`fft`; ``x`` is real.

    Returns:
        Complex array of n // 2 + 1 numbers along ``axis``.

    Raises:
        DTypeError: ``x`` is complex.

    Cost: half of that of :func:`fft`: two lines go as the real and the imaginary parts of one.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, one_length(n), one_axis(axis), norm, inverse=False,
        overwrite_x=overwrite_x, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def one_length(n: Any) -> tuple[int] | None:
    """The length of a transform along one axis, for :func:`portable_gpu.ops.fft.api.transform`.

    Raises:
        ArgumentTypeError: It is no whole number.
        ArgumentError: It is below 1.
    """
    if n is None:
        return None
    length = _whole(n, "n")
    if not 1 <= length <= LONGEST:
        raise ArgumentError(
            f"invalid number of data points: n is {shown(n)}; from 1 to 2^50 would do"
        )
    return (length,)


def one_axis(axis: Any) -> tuple[int, ...]:
    """The axis of a transform along one axis, for :func:`portable_gpu.ops.fft.api.transform`.

    Raises:
        ArgumentTypeError: It is no whole number.
        ArgumentError: No array has so many axes.
    """
    if type(axis) is int and abs(axis) <= LONGEST:  # at once, for short calls are many
        return (axis,)
    place = _whole(axis, "axis")
    if abs(place) > LONGEST:
        raise ArgumentError(f"axis is {shown(axis)}; an integer below the number of axes would do")
    return (place,)


def _whole(value: Any, name: str) -> int:
    """Return an integer of any kind but a bool as an int."""
    if isinstance(value, bool):
        raise ArgumentTypeError(f"{name} is {value}; an integer would do")
    return whole(value, name)


def check_for_scipy(plan: Any, workers: Any) -> None:
    """Refuse what SciPy's functions refuse as well; otherwise ``workers`` says nothing to a device.

    Raises:
        UnsupportedError: ``plan`` is something.
        ArgumentTypeError: ``workers`` is no whole number.
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
