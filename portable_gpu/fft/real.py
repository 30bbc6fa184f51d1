"""Transforms of real numbers, of which half says all, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.ops.fft.api import transform
from portable_gpu.ops.fft.functions import check_for_scipy, one_axis, one_length
from portable_gpu.runtime.engine import Engine


def irfft(
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
    """The inverse of :func:`rfft`: n real numbers from the first n // 2 + 1 of their transform.

    Arguments, errors, accuracy: see :func:`fft`.  ``n`` is 2 (m - 1) by default, where ``x`` has m
    numbers along ``axis``; an odd length has to be told.  The imaginary parts of the number 0, and
    of the number n / 2, are not looked at.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, one_length(n), one_axis(axis), norm, inverse=True,
        overwrite_x=overwrite_x, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def hfft(
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
    """The transform of n numbers, given n // 2 + 1 of them, that are symmetric: it is real.

    Arguments, result, errors, cost and accuracy: see :func:`irfft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, one_length(n), one_axis(axis), norm, inverse=False,
        overwrite_x=overwrite_x, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def ihfft(
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
    """The inverse of :func:`hfft`.

    Arguments, result, errors, cost and accuracy: see :func:`rfft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, one_length(n), one_axis(axis), norm, inverse=True,
        overwrite_x=overwrite_x, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


def rfft2(
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
    """The transform of real numbers along two axes; the last has half.

    Arguments, result, errors, cost and accuracy: see :func:`rfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def irfft2(
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
    """The inverse of :func:`rfft2`.

    Arguments, result, errors, cost and accuracy: see :func:`irfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def rfftn(
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
    """The transform of real numbers along several axes; the last has n // 2 + 1 numbers.

    Arguments, result, errors, cost and accuracy: see :func:`rfft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def irfftn(
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
    """The inverse of :func:`rfftn`.

    Arguments, result, errors, cost and accuracy: see :func:`irfft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def hfft2(
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
    """The transform of symmetric numbers along two axes: it is real.

    Arguments, result, errors, cost and accuracy: see :func:`irfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def ihfft2(
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
    """The inverse of :func:`hfft2`.

    Arguments, result, errors, cost and accuracy: see :func:`rfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def hfftn(
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
    """The transform of symmetric numbers along several axes: it is real.

    Arguments, result, errors, cost and accuracy: see :func:`irfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


def ihfftn(
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
    """The inverse of :func:`hfftn`.

    Arguments, result, errors, cost and accuracy: see :func:`rfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip
