"""FFTs of real input, of which half of the spectrum is stored, and their inverses."""

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
def irfft(
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
    """The inverse of :func:`rfft`: n real numbers from the first n // 2 + 1 of their transform.

    Arguments, errors, accuracy: see :func:`fft`.  ``n`` is 2 (m - 1) by default, where m is the
    extent of ``x`` along ``axis``; pass ``n`` for odd lengths.  The imaginary parts of x[0], and of
    x[n / 2] for even n, are ignored.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, one_length(n), one_axis(axis), norm, inverse=True,
        overwrite_x=overwrite_x, out=out, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def hfft(
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
    """The real transform of a Hermitian-symmetric signal: n numbers, from the first n // 2 + 1.

    Arguments, result, errors, cost and accuracy: see :func:`irfft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, one_length(n), one_axis(axis), norm, inverse=False,
        overwrite_x=overwrite_x, out=out, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def ihfft(
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
    """The inverse of :func:`hfft`.

    Arguments, result, errors, cost and accuracy: see :func:`rfft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, one_length(n), one_axis(axis), norm, inverse=True,
        overwrite_x=overwrite_x, out=out, engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def rfft2(
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
    """The transform of real numbers along two axes; of the last, n // 2 + 1 results are stored.

    Arguments, result, errors, cost and accuracy: see :func:`rfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def irfft2(
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
    """The inverse of :func:`rfft2`.

    Arguments, result, errors, cost and accuracy: see :func:`irfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def rfftn(
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
    """The transform of real numbers along several axes; of the last, n // 2 + 1 are stored.

    Arguments, result, errors, cost and accuracy: see :func:`rfft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def irfftn(
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
    """The inverse of :func:`rfftn`.

    Arguments, result, errors, cost and accuracy: see :func:`irfft`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def hfft2(
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
    """The real transform of a Hermitian-symmetric signal along two axes.

    Arguments, result, errors, cost and accuracy: see :func:`irfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def ihfft2(
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
    """The inverse of :func:`hfft2`.

    Arguments, result, errors, cost and accuracy: see :func:`rfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def hfftn(
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
    """The real transform of a Hermitian-symmetric signal along several axes.

    Arguments, result, errors, cost and accuracy: see :func:`irfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "c2r", x, s, axes, norm, inverse=False, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip


@of_one
def ihfftn(
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
    """The inverse of :func:`hfftn`.

    Arguments, result, errors, cost and accuracy: see :func:`rfftn`.
    """
    check_for_scipy(plan, workers)
    return transform(
        "r2c", x, s, axes, norm, inverse=True, overwrite_x=overwrite_x, out=out, engine=engine,
        queue=queue, wait_for=wait_for,
    )  # fmt: skip
