"""The transforms that commands have by name, with the arguments of ``scipy.fft``.

:mod:`portable_gpu.fft` has the others, which also call
:func:`~portable_gpu.ops.fft.call.transform`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import shown, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from portable_gpu.ops.fft.call import LONGEST, transform
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.typing import of_one


@of_one
def fft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: None = None,
    out: Any = None,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The transform of each line of ``x`` along ``axis``: X[k] = sum_j x[j] exp(-2 pi i j k / n).

    Args:
        x: Array of any shape and strides: float32, float64, complex64, complex128; float16 is
            computed as float32, integers and bool as float64.
        n: Length of the transform: ``x`` is truncated, or padded with zeros.  Default: the extent
            of ``x`` along ``axis``.
        axis: The axis.
        norm: The scaling.  ``"backward"`` (the default) scales the inverse transform by 1 / n;
            ``"forward"`` scales the forward transform by it; ``"ortho"`` scales both by 1 /
            sqrt(n).
        overwrite_x: Whether ``x`` may be overwritten: if its shape and dtype are those of the
            result, the result is stored in its memory.
        workers: Accepted for compatibility with SciPy, and ignored.
        plan: Accepted for compatibility with SciPy; must be ``None``.
        out: The array for the result, of its shape and dtype; it may be ``x`` itself.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        Complex array with n elements along ``axis``: complex64 for inputs in single or half
        precision, else complex128.  A NumPy array (finished) for NumPy inputs, a device array
        (enqueued) for device arrays.

    Raises:
        ArgumentError: n is below 1, or ``norm`` is unknown.
        AxisError: ``axis`` is out of range.
        ShapeError: ``out`` has another shape.
        DTypeError: The elements of ``x`` are not numbers, or are long doubles; ``out`` has another
            dtype.
        OverlapError: ``out`` shares memory with ``x``, and is not ``x``.
        UnsupportedError: The call needs double precision, which the device lacks.
        DeviceMemoryError: The result or the workspace cannot be allocated.

    Cost: 5 n log2 n flop per line; memory is read and written once if scratch memory or a
        work-group holds a line, else twice.  Lengths with a prime beyond 13 are convolutions of at
        least twice the length (Bluestein), or cyclic convolutions on GPUs (Rader).
    Accuracy: relative error in the 2-norm of about 0.2 eps log2 n; twiddles are computed by the
        host in extended precision.
    Order: the same bits for one target, policy, shape and alignment.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, one_length(n), one_axis(axis), norm, inverse=False,
        overwrite_x=overwrite_x, out=out, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def rfft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: None = None,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The transform of real numbers: the first n // 2 + 1 results of :func:`fft`, at half its cost.

    The other results are conjugates of these.  Arguments, errors, accuracy: see :func:`fft`; ``x``
    is real.

    Returns:
        Complex array of n // 2 + 1 numbers along ``axis``.

    Raises:
        DTypeError: ``x`` is complex.

    Cost: half of that of :func:`fft`: two real lines are the parts of one complex line.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, one_length(n), one_axis(axis), norm, inverse=False,
        overwrite_x=overwrite_x, out=out, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def one_length(n: Any) -> tuple[int] | None:
    """The length of a transform along one axis, for :func:`portable_gpu.ops.fft.call.transform`.

    Raises:
        ArgumentTypeError: It is no whole number.
        ArgumentError: It is below 1.
    """
    if n is None:
        return None
    length = _whole(n, "n")
    if not 1 <= length <= LONGEST:
        raise ArgumentError(
            f"invalid number of data points: n is {shown(n)}; expected an integer from 1 to 2^50"
        )
    return (length,)


def one_axis(axis: Any) -> tuple[int, ...]:
    """The axis of a transform along one axis, for :func:`portable_gpu.ops.fft.call.transform`.

    Raises:
        ArgumentTypeError: It is no whole number.
        ArgumentError: The number of axes is larger than the limit for arrays.
    """
    if type(axis) is int and abs(axis) <= LONGEST:  # the usual case first, for short calls
        return (axis,)
    place = _whole(axis, "axis")
    if abs(place) > LONGEST:
        raise ArgumentError(f"axis is {shown(axis)}; expected an integer below the number of axes")
    return (place,)


def _whole(value: Any, name: str) -> int:
    """Return an integer of any kind but a bool as an int."""
    if isinstance(value, bool):
        raise ArgumentTypeError(f"{name} is {value}; expected an integer")
    return whole(value, name)


def check_for_scipy(plan: Any, workers: Any) -> None:
    """Check two arguments that exist for compatibility with SciPy, as SciPy checks them.

    Raises:
        UnsupportedError: ``plan`` is not ``None``.
        ArgumentTypeError: ``workers`` is no whole number.
        ArgumentError: It is 0, or below minus the number of processors.
    """
    if plan is not None:
        raise UnsupportedError(
            "a precomputed plan is not taken; portable_gpu.plan(fft, x) makes a plan to call"
        )
    if workers is None:
        return
    min_workers = -(os.cpu_count() or 1)
    count = whole(workers, "workers")
    if count == 0:
        raise ArgumentError("workers must not be zero")
    if count < min_workers:
        raise ArgumentError(
            f"workers value out of range: {count}, must not be less than {min_workers}"
        )
