"""The public functions of batch and instance norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import finite, flag
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, ArraysError, ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.elementwise.api import updated_inputs
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import make_plan
from portable_gpu.ops.floats import floating, statistics_dtype
from portable_gpu.ops.normalize.arguments import parameter
from portable_gpu.ops.normalize.functions import group_norm, native_group_norm
from portable_gpu.ops.normalize.invoke import flop_of
from portable_gpu.ops.normalize.norms import Place, backward, batch_geometry, forward, place_of
from portable_gpu.ops.operation import CallArguments, Invocation, check_one_context
from portable_gpu.ops.ordered import OrderedOperation
from portable_gpu.ops.reduce import mean as averaged
from portable_gpu.ops.reduce import var
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, View, as_array, check_no_overlap, check_output


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Normalise each channel of each element of the batch over the axes after the channels.

    It is :func:`group_norm` with a group for each channel, and its gradient is
    :func:`group_norm_backward`.  Without ``use_input_stats`` it is :func:`batch_norm` by running
    statistics.

    Args:
        input, weight, bias, eps, out, engine, queue, wait_for: As :func:`batch_norm`.
        running_mean, running_var: An element for each channel, of float32 (float64 for float64),
            both or none.  With ``use_input_stats`` they are updated in place by ``momentum``, with
            the batch's mean of the statistics of its elements (the variance has the divisor n - 1);
            otherwise they are the statistics.
        use_input_stats: Whether the statistics are those of ``input``.
        momentum: The weight of new statistics.

    Returns: As :func:`batch_norm`.

    Raises: As :func:`batch_norm`, and:
        ArgumentError: Running statistics are updated, and a channel has fewer than two elements.
        OverlapError: Running statistics share memory with another array.

    Cost: as :func:`group_norm`; an update of running statistics is the variance of each instance
        (see :func:`portable_gpu.var`), and launches on arrays of (N, C) elements.
    """
    place = place_of(engine, queue, wait_for)
    if not flag(use_input_stats, "use_input_stats"):
        return _by_running(input, running_mean, running_var, weight, bias, eps, out, place)
    if running_mean is None and running_var is None:
        x = _with_channels(input)
        return group_norm(x, max(1, x.shape[1]), weight, bias, eps, out=out, **place)
    return tracked_instance_norm(
        input, running_mean, running_var, weight, bias, momentum, eps, out, place
    )[0]


def tracked_instance_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    momentum: float,
    eps: float,
    out: Any,
    place: Place,
) -> tuple[Any, Any, Any]:
    """Normalise instances, and update running statistics in place, if there are any.

    Returns:
        The result, and the mean and ``1 / sqrt(var + eps)`` of each instance, of shape (N, C).
    """
    x = _with_channels(input)
    _both(running_mean, running_var)
    count, channels, wide = prod(x.shape[2:]), (x.shape[1],), statistics_dtype(x.dtype)
    named = {"input": x, "running_mean": running_mean, "running_var": running_var}
    named |= {"weight": weight, "bias": bias, "out": out}
    check_one_context(named, place.get("engine"), place.get("queue"))
    if running_mean is not None:
        others = [(x, "input"), (weight, "weight"), (bias, "bias"), (out, "out")]
        for name, value in (("running_mean", running_mean), ("running_var", running_var)):
            parameter(value, name, channels, wide)
            check_output(value, channels, wide, name, not isinstance(x, DEVICE_KINDS))
            check_no_overlap(value, name, others)
            others.append((value, name))
        finite(momentum, "momentum")
        if count < 2:
            raise ArgumentError(
                f"input has shape {x.shape}: running variances need at least two elements of a "
                "channel"
            )
    y, mean, rstd = native_group_norm(
        x, max(1, x.shape[1]), weight, bias, eps, out=_first(out, 3), **place
    )
    if running_mean is None or not x.size:
        return y, mean, rstd
    # Not of rstd = 1 / sqrt(var + eps), in which a variance far below eps has no digits.
    variance = var(x, axis=tuple(range(2, x.ndim)), dtype=wide, ddof=1, **place)
    # A variance above the largest number, whose rstd is 0, is infinite, and not NaN.
    variance = elementwise("r == 0 ? 1 / r : v", r=rstd, v=variance, **place)
    # All that may fail is done before the first update.
    new = [averaged(values, axis=0, **place) for values in (mean, variance)]  # over the batch
    for running, value in zip((running_mean, running_var), new, strict=True):
        elementwise(
            "(1 - f) * s + f * n", s=running, n=value, f=float(momentum), out=running, **place
        )
    return y, mean, rstd


def _with_channels(input: Any) -> Any:
    x = floating(input, "input")
    if x.ndim < 2:
        raise ShapeError(f"input has shape {x.shape}; batch and channels are needed")
    return x


def _both(running_mean: Any, running_var: Any) -> None:
    """Raise ArgumentError if only one of the running statistics is given."""
    if (running_mean is None) != (running_var is None):
        names = ["running_mean", "running_var"][:: 1 if running_mean is None else -1]
        raise ArgumentError(f"{names[0]} is None and {names[1]} is not; expected both or none")


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Normalise each channel over the batch and the axes after the channels.

    Args:
        input: The axes batch, channels and any others.
        running_mean, running_var: An element for each channel, of float32 (float64 for float64).
            In training they are updated in place by ``momentum``, the variance with the divisor
            n - 1, and may be ``None``; otherwise they are the statistics.
        weight, bias: An element for each channel, or ``None``.
        training: Whether the statistics are those of ``input``.
        momentum: The weight of new statistics.
        eps: The number that is added to the variance: above 0 in training, else at least 0.
        out, engine, queue, wait_for: As :func:`layer_norm`.

    Returns: As :func:`layer_norm`.

    Raises: As :func:`layer_norm`, and:
        ArgumentError: A channel has fewer than two elements in training; running statistics are
            missing; ``eps`` is out of its range.

    Cost: in training ``input`` is read twice (once if a channel fits into the registers of a
        work-group or the caches of a CPU's core), the result is written once, and the same launches
        update the running statistics.  Otherwise it is one elementwise expression, and on CPUs
        another one of the channels.
    Accuracy, order: as :func:`layer_norm`.
    """
    _check_eps(eps, flag(training, "training"))
    if training and running_mean is None and running_var is None:
        return forward(
            "batch_norm", input, None, weight, bias, eps, None, out,
            place_of(engine, queue, wait_for), with_statistics=False,
        )  # fmt: skip
    if training:
        return native_batch_norm(
            input, weight, bias, running_mean, running_var, True, momentum, eps,
            out=_first(out, 3), engine=engine, queue=queue, wait_for=wait_for,
        )[0]  # fmt: skip
    return _by_running(
        input, running_mean, running_var, weight, bias, eps, out, place_of(engine, queue, wait_for)
    )


def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any, Any]:
    """Compute :func:`batch_norm`, and return the statistics that its gradient needs.

    Args:
        input, weight, bias, running_mean, running_var, training, momentum, eps: As
            :func:`batch_norm`.
        out: A tuple of three, each an array or ``None``: for the result and the two statistics.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        The result, the mean and ``1 / sqrt(var + eps)``.  The statistics have an element for each
        channel, of float32 (float64 for float64); without ``training`` they are ``None``.

    Raises, Cost, Accuracy, order: as :func:`batch_norm`.
    """
    place = place_of(engine, queue, wait_for)
    _check_eps(eps, flag(training, "training"))
    if not training:
        out_of_result = out[0] if isinstance(out, tuple) and len(out) == 3 else out
        y = _by_running(input, running_mean, running_var, weight, bias, eps, out_of_result, place)
        return y, None, None
    _both(running_mean, running_var)
    if running_mean is None:
        results = forward("batch_norm", input, None, weight, bias, eps, None, out, place)
        return results[0], results[1], results[2]
    out = (None,) * 3 if out is None else out
    if isinstance(out, tuple):
        out = (*out, running_mean, running_var)
    results = forward("batch_norm", input, None, weight, bias, eps, momentum, out, place)
    return results[0], results[1], results[2]


def batch_norm_backward(
    grad_output: Any,
    input: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    training: bool,
    eps: float,
    bias: Any = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any, Any]:
    """Compute the gradients of :func:`batch_norm` with respect to input, weight and bias.

    Args:
        grad_output: The gradient of the result; of the shape and dtype of ``input``.
        input, weight: As :func:`batch_norm` took them.
        running_mean, running_var: The statistics without ``training``.
        save_mean, save_invstd: The statistics of :func:`native_batch_norm` with ``training``.
        training, eps: As :func:`batch_norm` took them.
        bias: Any value but ``None`` requests the gradient of the bias.
        out: A tuple for the three gradients, each an array or ``None``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns, Raises: As :func:`layer_norm_backward`.

    Cost: both large arrays are read twice (once if a channel fits, as in :func:`batch_norm`) for
        all three gradients.
    """
    place = place_of(engine, queue, wait_for)
    is_training = flag(training, "training")
    x = floating(input, "input")
    channels, wide = batch_geometry(tuple(x.shape)).statistics, statistics_dtype(x.dtype)
    if is_training:
        mean = parameter(save_mean, "save_mean", channels, wide)
        rstd = parameter(save_invstd, "save_invstd", channels, wide)
    else:
        mean, variance = (
            _running(value, name, channels, wide)
            for name, value in (("running_mean", running_mean), ("running_var", running_var))
        )
        finite(eps, "eps")
        rstd = elementwise("1 / sqrt(v + eps)", v=variance, eps=eps, **place)
    try:
        return backward(
            "batch_norm", (grad_output, input), None, {"mean": mean, "rstd": rstd}, weight, bias,
            out, place, is_fixed=not is_training,
        )  # fmt: skip
    except ArraysError as error:
        names = ("save_mean", "save_invstd") if is_training else ("running_mean", "running_var")
        raise error.renamed(dict(zip(("mean", "rstd"), names, strict=True))) from None


def _check_eps(eps: Any, training: bool) -> None:
    """Raise ArgumentTypeError or ArgumentError for an ``eps`` that torch refuses."""
    if finite(eps, "eps") < 0 or (training and not eps):
        expected = "a number above 0 in training" if training else "at least 0"
        raise ArgumentError(f"eps is {eps}; expected {expected}")


def _first(out: Any, count: int) -> Any:
    """Return ``out`` of a call with several results, of which the first one has an array."""
    return None if out is None else (out, *(None,) * (count - 1))


def _running(value: Any, name: str, channels: Shape, dtype: np.dtype[Any]) -> Any:
    """Return running statistics, which must be given, as an array."""
    if value is None:
        raise ArgumentError(f"{name} is None; without training, statistics are needed")
    return parameter(value, name, channels, dtype)


def _normalise_by_running(arguments: CallArguments) -> Invocation:
    names, updated, eps = arguments.options
    by_name = dict(zip((n for n in names if n not in updated), arguments.inputs, strict=True))
    x = floating(arguments.out if updated else by_name["input"], "input")
    shape, dtype = tuple(x.shape), x.dtype
    geometry, wide = batch_geometry(shape), statistics_dtype(dtype)
    operands = {} if updated else {"x": x}
    for name, short in (("running_mean", "m"), ("running_var", "v")):
        operands[short] = _running(by_name[name], name, geometry.statistics, wide)
    for name, short in (("weight", "w"), ("bias", "b")):
        if name in by_name:
            operands[short] = parameter(by_name[name], name, geometry.parameters, dtype)
    places = {name: place for place, name in enumerate((*operands, "y"))}
    factor = f"{'w' if 'w' in operands else '1'} / sqrt(v + eps)"
    text = f"(x - m) * ({{}}){' + b' if 'b' in operands else ''}"

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        of_channels = replace(views[places["m"]], strides=(1,))

        def step(expression: str, extents: Shape, result: str, *read: str) -> Step:
            """Compute an expression of operands; ``f`` is a factor for each channel."""
            seen = [of_channels if n == "f" else views[places[n]] for n in (*read, result)]
            along = (0,) * (len(extents) - 2)
            strides = [
                view.strides if len(view.shape) == len(extents) else (0, view.strides[0], *along)
                for view in seen
            ]
            scalars = ("eps",) if "eps" in expression else ()
            problem = ElementwiseProblem(
                expression=expression, names=read,
                inputs=tuple(element(view.dtype) for view in seen[:-1]),
                updated=("x",) if updated and result == "y" else (), scalars=scalars,
                compute=element(wide), result=element(seen[-1].dtype), shape=extents,
                strides=tuple(strides),
                alignment=1 if engine.target.is_cpu else min(16, *(v.alignment for v in seen)),
            )  # fmt: skip
            made = engine.plan(problem, lambda: make_plan(engine, problem))
            operands = [factors if n == "f" else places[n] for n in (*read, result)]
            return Step(made, tuple(operands), takes_scalars=bool(scalars))

        factors = Temporary("f", shape[1] * wide.itemsize, wide.itemsize)
        read = [name for name in operands if name not in ("v", "w")]
        if not engine.target.is_cpu:
            return Steps([step(text.format(factor), shape, "y", *operands)])
        variances = [name for name in operands if name in ("v", "w")]
        return Steps([
            step(factor, geometry.statistics, "f", *variances),
            step(text.format("f"), shape, "y", *read, "f"),
        ])  # fmt: skip

    return Invocation(
        inputs=tuple(operands.values()),
        names=tuple(by_name),
        shape=shape,
        dtype=dtype,
        plan=plan,
        flop=flop_of(shape, 4),
        scalars=(eps,),
        out=arguments.out,
        reads_out=bool(updated),
        computes=(wide,),
    )


_BY_RUNNING = OrderedOperation("batch_norm_by_running_statistics", _normalise_by_running)


def _by_running(
    input: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: Any, out: Any, place: Place
) -> Any:
    """Normalise by given statistics of channels: one elementwise expression.

    On CPUs, where a root and a quotient of each element would take longer than its memory, another
    one first computes the factors of the channels.
    """
    by_name = {"input": input, "running_mean": mean, "running_var": variance}
    if weight is not None:
        by_name["weight"] = weight
    if bias is not None:
        by_name["bias"] = bias
    updated = () if out is None else tuple(updated_inputs(as_array(out, "out"), {
        "input": as_array(input, "input")
    }))  # fmt: skip
    arrays = tuple([array for name, array in by_name.items() if name not in updated])
    options = tuple(by_name), updated, finite(eps, "eps")
    return _BY_RUNNING.call(arrays, options, out, **place)
