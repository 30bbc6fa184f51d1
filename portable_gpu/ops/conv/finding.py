"""The variants of a convolution timed on a device, for calls with ``algo="found"``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.errors import ArgumentError, BuildError, DeviceMemoryError, UnsupportedError
from portable_gpu.ops.conv import answers
from portable_gpu.ops.conv.answers import TimedAlgorithm
from portable_gpu.ops.conv.api import convolve, problem_of_call
from portable_gpu.ops.conv.functions import present
from portable_gpu.ops.conv.shapes import Options
from portable_gpu.ops.conv.variants import of_algorithm
from portable_gpu.ops.variant import ranked
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import Planning, events_of
from portable_gpu.runtime.views import AnyArray
from portable_gpu.tuning.costs import DeviceCosts

#: Turns of each variant, and the seconds that a turn lasts at least.
_TURNS, _TURN = 4, 0.01
#: A variant whose first turn takes this many times that of the fastest one has no more turns.
_HOPELESS = 2.0


def find(
    kind: str,
    inputs: tuple[Any, ...],
    options: Options,
    size: Any = None,
    epilogue: Epilogue | None = None,
    *,
    precision: str | None,
    workspace_limit: int | None,
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> list[TimedAlgorithm]:
    """Time the variants of a call of :func:`convolve`, and remember them; fastest first.

    Raises:
        ArgumentError: The call is that of a plan.
    """
    if isinstance(engine, Planning):
        raise ArgumentError(
            "a plan cannot be made of a function that times variants; make one of the convolution, "
            "with algo='found'"
        )
    asked: dict[str, Any] = {
        "precision": precision, "workspace_limit": workspace_limit, "out": out, "engine": engine,
        "queue": queue,
    }  # fmt: skip
    for event in events_of(wait_for):
        event.wait()
    prepared = problem_of_call(kind, inputs, options, size, epilogue, **asked)
    if prepared is None:
        return []
    where, problem = prepared
    every = of_algorithm(problem, where.target, where.table, "auto", workspace_limit)

    def calls(algo: str) -> Callable[[int], float]:
        def seconds(count: int) -> float:
            result = None
            begin = perf_counter()
            for _ in range(count):
                result = convolve(
                    kind, inputs, options, size, epilogue, algo=algo, wait_for=None, **asked
                )
            if not isinstance(result, np.ndarray) and result is not None:
                (result.queue or queue or where.queue).finish()
            return perf_counter() - begin

        return seconds

    variants = {
        variant.name: calls(variant.name)
        for variant in ranked(every, DeviceCosts.of("device", where.target))
    }
    seconds = _timed(variants)
    workspaces = {variant.name: variant.details["workspace"] for variant in every}
    timed = [TimedAlgorithm(name, time, workspaces[name]) for name, time in seconds.items()]
    timed.sort(key=lambda answer: answer.seconds)
    answers.store(problem, where.target, timed)
    where.forget_plans()  # those of the variants, and of what was the answer
    return timed


def _timed(variants: dict[str, Callable[[int], float]]) -> dict[str, float]:
    """The least seconds of a call of each variant, which take turns.

    Raises:
        BuildError, DeviceMemoryError, UnsupportedError: None of them runs: the last one's error.
    """
    counts: dict[str, int] = {}
    fastest: dict[str, float] = {}
    failed: Exception | None = None
    for name, seconds in variants.items():
        try:
            seconds(1)  # builds the kernels
            first = seconds(1)
        except (BuildError, DeviceMemoryError, UnsupportedError) as error:
            warnings.warn(f"{name} is not timed: {error}", stacklevel=4)
            failed = error
            continue
        counts[name] = max(1, round(_TURN / max(first, 1e-9)))
        fastest[name] = first
    if failed is not None and not fastest:
        raise failed
    for _ in range(_TURNS):
        best = min(fastest.values(), default=0.0)
        for name, count in counts.items():
            if fastest[name] <= _HOPELESS * best:
                fastest[name] = min(fastest[name], variants[name](count) / count)
    return fastest


class Finding:
    """The public functions that time convolutions along a number of spatial axes, as methods."""

    def __init__(self, axes: int) -> None:
        """Take the number of spatial axes."""
        self._axes = axes

    def conv(
        self,
        input: AnyArray,
        weight: AnyArray,
        bias: AnyArray | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[Any] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        *,
        epilogue: Epilogue | None = None,
        precision: str | None = None,
        workspace_limit: int | None = None,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> list[TimedAlgorithm]:
        """Time the variants of a call of :func:`conv2d` on this device, and remember the answer.

        Calls with ``algo="found"`` take the fastest variant whose workspace is within their limit.
        A variant that computes some images at a time is within it if one image is, also
        where more images at a time were timed.
        An answer holds for the device, its driver, the version of the library, and all that the
        call says: shapes, strides and dtype of the arrays, stride, padding, dilation, groups,
        precision and the epilogue.  A bias and the alignment of arrays make no difference.  It is
        kept with the compiled programs (``PORTABLE_GPU_CACHE``), also for other processes; without
        that folder, until the process ends.  An engine uses the answer that it read first, until
        one of these functions runs on it; plans of :func:`portable_gpu.plan` keep theirs.

        Args:
            input, weight, bias, stride, padding, dilation, groups: As for :func:`conv2d`.  The
                arrays are read; of device arrays, only the device's time counts if calls take
                longer than the host needs to enqueue them.
            epilogue, precision, engine, queue: As for :func:`conv2d`.
            workspace_limit: As for :func:`conv2d`; variants above it are not timed.
            out: An array with the strides of the results to come, which is overwritten; by default
                fresh results are timed.
            wait_for: Events that are awaited before the first call.

        Returns:
            The variants, fastest first: a list of named tuples ``(algo, seconds, workspace)``;
            empty if the result has no elements.  ``algo=`` takes each name.

        Raises:
            As :func:`conv2d`, before anything is launched.
            BuildError, DeviceMemoryError: No variant runs.  If only some variants fail, there is a
                warning.

        Cost: about ten calls of each variant that is less than twice as slow as the fastest, two of
            each other one, and the compilation of all their kernels.
        """
        return find(
            "forward", present(input, weight, bias),
            Options(self._axes, stride, padding, dilation, groups), None, epilogue,
            precision=precision, workspace_limit=workspace_limit, out=out, engine=engine,
            queue=queue, wait_for=wait_for,
        )  # fmt: skip

    def conv_input(
        self,
        input_size: Sequence[int],
        weight: AnyArray,
        grad_output: AnyArray,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[Any] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        *,
        precision: str | None = None,
        workspace_limit: int | None = None,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> list[TimedAlgorithm]:
        """Time the variants of a call of :func:`conv2d_input`; see :func:`find_conv2d`.

        The answer is also that of :func:`conv_transpose2d` with ``grad_output`` as its input and
        a result of the shape ``input_size``.

        Args:
            input_size, weight, grad_output: As for :func:`conv2d_input`.
            stride, padding, dilation, groups: The arguments of the convolution.
            precision, workspace_limit, out, engine, queue, wait_for: As for :func:`find_conv2d`.

        Returns, Raises, Cost: As for :func:`find_conv2d`.
        """
        return find(
            "input", (grad_output, weight), Options(self._axes, stride, padding, dilation, groups),
            input_size,
            precision=precision, workspace_limit=workspace_limit, out=out, engine=engine,
            queue=queue, wait_for=wait_for,
        )  # fmt: skip

    def conv_weight(
        self,
        input: AnyArray,
        weight_size: Sequence[int],
        grad_output: AnyArray,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[Any] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        *,
        precision: str | None = None,
        workspace_limit: int | None = None,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> list[TimedAlgorithm]:
        """Time the variants of a call of :func:`conv2d_weight`; see :func:`find_conv2d`.

        Args:
            input, weight_size, grad_output: As for :func:`conv2d_weight`.
            stride, padding, dilation, groups: The arguments of the convolution.
            precision, workspace_limit, out, engine, queue, wait_for: As for :func:`find_conv2d`.

        Returns, Raises, Cost: As for :func:`find_conv2d`.
        """
        return find(
            "weight", (input, grad_output), Options(self._axes, stride, padding, dilation, groups),
            weight_size,
            precision=precision, workspace_limit=workspace_limit, out=out, engine=engine,
            queue=queue, wait_for=wait_for,
        )  # fmt: skip


_AXES = Finding(1), Finding(2), Finding(3)
find_conv1d, find_conv2d, find_conv3d = [functions.conv for functions in _AXES]
find_conv1d_input, find_conv2d_input, find_conv3d_input = [
    functions.conv_input for functions in _AXES
]
find_conv1d_weight, find_conv2d_weight, find_conv3d_weight = [
    functions.conv_weight for functions in _AXES
]
