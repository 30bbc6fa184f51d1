"""Dropout of whole channels along one to three axes of space, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import ShapeError
from portable_gpu.ops.floats import floating, statistics_dtype
from portable_gpu.ops.operation import check_one_context
from portable_gpu.ops.ordered import elementwise_like
from portable_gpu.ops.random.api import dropout
from portable_gpu.ops.result import check_out
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.transfer import asarray


class ChannelDropout:
    """The public functions for a number of axes of space, as methods."""

    def __init__(self, axes: int) -> None:
        """Take the number of axes of space."""
        self._axes = axes

    def dropout(
        self,
        input: Any,
        p: float = 0.5,
        training: bool = True,
        *,
        seed: int,
        offset: int = 0,
        out: Any = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Set each channel to 0 with probability ``p``, and multiply the others by ``1 / (1 - p)``.

        Args:
            input: Shape (batch, channels, spatial axes), with one, two or three spatial axes as the
                name says; any strides.  As torch's, ``dropout1d`` and ``dropout3d`` also take an
                array without a batch, and ``dropout2d`` a batch with one spatial axis.
            p, training, seed, offset: As in :func:`nn.dropout`.
            out, engine, queue, wait_for: See :func:`portable_gpu.elementwise`.

        Returns:
            ``out``, or a fresh array of the shape of ``input``.

        Raises:
            ShapeError: ``input`` has another number of axes; ``out`` has another shape.
            Others: As :func:`nn.dropout`.

        Cost: each element read once and written once, and a mask of one number for each channel,
            by two launches.
        Accuracy: one rounding of the product.
        Order: the mask is that of :func:`nn.dropout` on an array of (batch, channels).
        """
        return self._dropped(
            input, "input", p, training, seed, offset, out, engine, queue, wait_for
        )

    def dropout_backward(
        self,
        grad_output: Any,
        p: float = 0.5,
        training: bool = True,
        *,
        seed: int,
        offset: int = 0,
        out: Any = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Compute the gradient of :func:`nn.dropout2d`: its mask applied to the gradient.

        Args:
            grad_output: The gradient of the output, of any strides.
            p, training, seed, offset: The arguments of the call.
            out, engine, queue, wait_for: See :func:`portable_gpu.elementwise`.

        Returns, Raises, Cost, Accuracy: As :func:`nn.dropout2d`.
        """
        return self._dropped(
            grad_output, "grad_output", p, training, seed, offset, out, engine, queue, wait_for
        )

    def _dropped(
        self,
        input: Any,
        name: str,
        p: Any,
        training: Any,
        seed: Any,
        offset: Any,
        out: Any,
        engine: Engine | None,
        queue: cl.CommandQueue | None,
        wait_for: Sequence[cl.Event] | None,
    ) -> Any:
        x, axes = floating(input, name), self._axes
        fewer = axes + 1
        if x.ndim not in (fewer, axes + 2):
            names = ("batch", "channels") if axes == 2 else ("channels",)
            raise ShapeError(
                f"{name} has shape {tuple(x.shape)}; batch, channels and {axes} axes of space are "
                f"needed, or {' and '.join(names)} before {fewer - len(names)}"
            )
        check_out(out, tuple(x.shape), x.dtype, x)
        check_one_context({name: x, "out": out}, engine, queue)
        outer = x.shape[: 1 if axes != 2 and x.ndim == fewer else 2]
        ones: Any = np.ones((*outer, *(1,) * (x.ndim - len(outer))), statistics_dtype(x.dtype))
        place: dict[str, Any] = {"engine": engine, "queue": queue}
        if isinstance(x, DEVICE_KINDS):
            ones = asarray(ones, engine=engine, queue=queue or x.queue)
        factors = dropout(ones, p, training, seed=seed, offset=offset, **place)
        return elementwise_like(
            "x * f if f != 0 else 0", {"x": x, "f": factors}, {}, out, dtype=x.dtype,
            names={"x": name}, wait_for=events_of(wait_for), **place,
        )  # fmt: skip


_AXES = ChannelDropout(1), ChannelDropout(2), ChannelDropout(3)
dropout1d, dropout2d, dropout3d = [functions.dropout for functions in _AXES]
dropout1d_backward, dropout2d_backward, dropout3d_backward = [
    functions.dropout_backward for functions in _AXES
]
