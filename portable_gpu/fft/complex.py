"""Transforms of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.ops.fft.api import check_for_scipy, one_axis, one_length
from portable_gpu.ops.fft.call import transform
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.typing import of_one


@of_one
def ifft(
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
    """The inverse of :func:`fft`: exponents are positive, and the scale is 1 / n by default.

    Arguments, result, errors, cost and accuracy: see :func:`fft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, one_length(n), one_axis(axis), norm, inverse=True,
        overwrite_x=overwrite_x, out=out, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def fft2(
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
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
    """The transform along two axes.

    Arguments, result, errors, cost and accuracy: see :func:`fftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def ifft2(
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
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
    """The inverse of :func:`fft2`.

    Arguments, result, errors, cost and accuracy: see :func:`fftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def fftn(
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
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
    """The transform along several axes.

    Args:
        x: See :func:`fft`.
        s: Length of the transform along each of the axes.  Default, also for -1:
            the extent of ``x``.
        axes: The axes.  Default: the last ``len(s)``, or all without ``s``.
        norm, overwrite_x, workers, plan, out, engine, queue, wait_for: See :func:`fft`.

    With a ``multi.DeviceGroup`` as ``engine``, blocks of ``x`` are transformed, and are exchanged
    if their axis is transformed too.

    Returns:
        See :func:`fft`.

    Raises:
        ShapeError: ``s`` and ``axes`` differ in length, or ``s`` is longer than ``x`` has axes.
        ArgumentError, AxisError, DTypeError, UnsupportedError, DeviceMemoryError: See :func:`fft`.

    Cost, accuracy, order: the axes are transformed one after another, each as by :func:`fft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def ifftn(
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
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
    """The inverse of :func:`fftn`.

    Arguments, result, errors, cost and accuracy: see :func:`fftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2c", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip
