"""Transforms of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.fft.helper import check_for_scipy, one_length
from portable_gpu.ops.fft.api import transform
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
        else twice; lengths with a prime beyond 13 take some 4 to 8 times as long (Bluestein).
    Accuracy: relative error in the 2-norm of about 0.2 eps log2 n; twiddles are computed by the
        host in extended precision.
    Order: the same bits for one target, policy, shape and alignment.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, one_length(n), (axis,), norm, inverse=False,
        overwrite_x=overwrite_x, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def ifft(
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
    """The inverse of :func:`fft`: exponents are positive, and the scale is 1 / n by default.

    Arguments, result, errors, cost and accuracy: see :func:`fft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, one_length(n), (axis,), norm, inverse=True,
        overwrite_x=overwrite_x, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def fft2(
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The transform along two axes.

    Arguments, result, errors, cost and accuracy: see :func:`fftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def ifft2(
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The inverse of :func:`fft2`.

    Arguments, result, errors, cost and accuracy: see :func:`fftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def fftn(
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The transform along several axes.

    Args:
        x: See :func:`fft`.
        s: Length of the transform along each of the axes.  Default, also of -1:
            what ``x`` has.
        axes: The axes.  Default: the last ``len(s)``, or all without ``s``.
        norm, overwrite_x, workers, plan, engine, queue, wait_for: See :func:`fft`.

    Returns:
        See :func:`fft`.

    Raises:
        ShapeError: ``s`` and ``axes`` differ in length, or ``s`` is longer than ``x`` has axes.
        ArgumentError, AxisError, DTypeError, UnsupportedError, DeviceMemoryError: See :func:`fft`.

    Cost, accuracy, order: an axis after the other, each as :func:`fft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def ifftn(
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    plan: None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The inverse of :func:`fftn`.

    Arguments, result, errors, cost and accuracy: see :func:`fftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip
