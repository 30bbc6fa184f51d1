"""Losses and their gradients: cross entropy, negative log likelihood, squared errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import finite, one_of, whole
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.floats import floating, statistics_dtype
from portable_gpu.ops.normalize.arguments import like, parameter
from portable_gpu.ops.normalize.invoke import Spread, flop_of, make_rows
from portable_gpu.ops.normalize.targets import target_report, targets_step
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, View, as_array, contiguous_strides

_REDUCTIONS = ("none", "mean", "sum")
_Operand = tuple[int | Temporary | Part, View]


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``-sum(w * p * log_softmax(x))`` over the classes, p the target's probabilities.

    Args:
        input: x, the logits: shape (N, C) or (N, C, d1, ...), or (C,); of float16, bfloat16,
            float32 or float64, of any strides.
        target: The number of a class for each place, integers of shape (N, d1, ...); or
            probabilities of classes, of the shape and dtype of ``input``.
        weight: A weight for each class, of the dtype of ``input`` or float32; or ``None``.
        ignore_index: A number of no class whose places have loss and gradient 0.
        reduction: ``none``; ``sum``; or ``mean``, divided by the weights of the targets, or of
            probabilities by the number of places.
        label_smoothing: From 0 to 1: how much of the target is spread evenly over the classes.
        out: The array for the result, of the dtype of ``input``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out`` or a fresh array of shape (N, d1, ...), or without axes: of NumPy (finished) for
        NumPy's, on the device (enqueued) for one on the device.

    Raises:
        ArgumentError: A target is neither a class nor ``ignore_index``; the message has the first.
            It is raised by the call (NumPy), or where values of the result are brought to the host.
        ShapeError, DTypeError: Arrays do not belong together.
        ArgumentError, ArgumentTypeError: An option is not of the kind.
        OverlapError, ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: float64 on a device without double precision.

    Cost: ``input`` read once.
    Accuracy: sums over the classes as in :func:`log_softmax`, in float32 (float64 for float64);
        with probabilities or smoothing up to ``(C + c) * eps * sum(w * p * (|x| + |m|))``.
    Order: fixed for one target, policy, shape and alignment.
    """
    options = ("entropy", weight is not None, ignore_index, reduction, label_smoothing)
    arrays = (input, target) if weight is None else (input, target, weight)
    return _LOSS.call(arrays, options, out, (), engine, queue, wait_for)


def cross_entropy_backward(
    grad_output: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`cross_entropy` by ``input``.

    Args:
        grad_output: The gradient by the result, of its shape and the dtype of ``input``.
        input, target, weight, ignore_index, reduction, label_smoothing: As of the function.
        out: The array for the result, of the shape and dtype of ``input``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns, Raises: As :func:`cross_entropy`.

    Cost: ``input`` read once where the classes fit near a compute unit, else twice; the result
        written once.  A mean needs the targets before.
    """
    options = ("entropy", weight is not None, ignore_index, reduction, label_smoothing)
    arrays = (grad_output, input, target) + (() if weight is None else (weight,))
    return _GRADIENT.call(arrays, options, out, (), engine, queue, wait_for)


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``-w * x`` of the class that each target names; x are logarithms of probabilities.

    ``target`` has integers.  All else: as :func:`cross_entropy`.

    Cost: one element of ``input`` read for each target.
    """
    options = ("likelihood", weight is not None, ignore_index, reduction, 0.0)
    arrays = (input, target) if weight is None else (input, target, weight)
    return _LOSS.call(arrays, options, out, (), engine, queue, wait_for)


def nll_loss_backward(
    grad_output: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`nll_loss`: see :func:`cross_entropy_backward`.

    Cost: the result written once; ``input`` is not read.
    """
    options = ("likelihood", weight is not None, ignore_index, reduction, 0.0)
    arrays = (grad_output, input, target) + (() if weight is None else (weight,))
    return _GRADIENT.call(arrays, options, out, (), engine, queue, wait_for)


def mse_loss(
    input: Any,
    target: Any,
    reduction: str = "mean",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``(x - y)**2``: of each element (``none``), their sum, or their mean.

    ``target`` has the shape and dtype of ``input``.  All else: as :func:`cross_entropy`.

    Cost: both arrays read once.
    """
    if one_of(reduction, _REDUCTIONS, "reduction") == "none":
        x, y = floating(input, "input"), floating(target, "target")
        like(y, "target", x, "input")
        return elementwise(
            "(x - y) * (x - y)", x=x, y=y, out=out, engine=engine, queue=queue, wait_for=wait_for
        )
    return _SQUARES.call((input, target), (reduction,), out, (), engine, queue, wait_for)


def mse_loss_backward(
    grad_output: Any,
    input: Any,
    target: Any,
    reduction: str = "mean",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`mse_loss` by ``input``: one elementwise expression."""
    one_of(reduction, _REDUCTIONS, "reduction")
    x, y, g = (
        floating(input, "input"),
        floating(target, "target"),
        as_array(grad_output, "grad_output"),
    )
    like(y, "target", x, "input")
    expected = x.shape if reduction == "none" else ()
    if g.shape != expected:
        raise ShapeError(
            f"grad_output has shape {g.shape}; with this reduction {expected} would do"
        )
    scale = 2.0 / max(1, x.size) if reduction == "mean" else 2.0
    return elementwise(
        "(x - y) * g * k", x=x, y=y, g=g, k=scale, dtype=x.dtype, out=out,
        engine=engine, queue=queue, wait_for=wait_for,
    )  # fmt: skip


# -- classes


class _Classes:
    """The checked arguments of a loss of classes."""

    def __init__(self, input: Any, target: Any, weight: Any, options: Sequence[Any]) -> None:
        self.name, _, ignore, reduction, smoothing = options
        self.x, self.target = floating(input, "input"), as_array(target, "target")
        self.reduction = one_of(reduction, _REDUCTIONS, "reduction")
        self.smoothing = finite(smoothing, "label_smoothing")
        if not 0 <= self.smoothing <= 1:
            raise ArgumentError(f"label_smoothing is {smoothing}; from 0 to 1 would do")
        self.ignore = whole(ignore, "ignore_index")
        if not -(1 << 63) <= self.ignore < 1 << 63:
            raise ArgumentError(f"ignore_index is {ignore}; a 64-bit integer would do")
        shape = tuple(self.x.shape)
        if not shape:
            raise ShapeError("input has no axes; one of classes is needed")
        self.shape, self.axis = shape, 1 if len(shape) > 1 else 0
        self.places: Shape = shape[: self.axis] + shape[self.axis + 1 :]
        self.by_index = self.target.dtype.kind in "iu"
        if self.by_index and self.target.shape != self.places:
            raise ShapeError(
                f"target has shape {self.target.shape}; with an input of {shape}, {self.places} "
                "would do"
            )
        if not self.by_index:
            if self.name == "likelihood" or self.target.dtype.kind in "bc":
                raise DTypeError(f"target is {self.target.dtype}; integers would do")
            like(self.target, "target", self.x, "input")
        self.wide = statistics_dtype(self.x.dtype)
        classes = (shape[self.axis],)
        self.weight = None if weight is None else parameter(weight, "weight", classes, self.x.dtype)

    @property
    def flags(self) -> set[str]:
        """The flags of the programs."""
        result = set()
        if self.weight is not None:
            result.add("w")
        if not self.by_index:
            result.add("probabilities")
        elif self.smoothing:
            result.add("smooth")
        return result

    @property
    def spreads(self) -> dict[str, Spread]:
        """The strides of the operands in the index space of ``input``."""
        axis, ndim = self.axis, len(self.shape)

        def of_places(view: View) -> Shape:
            if not view.strides and ndim > 1:
                return (0,) * ndim
            return (*view.strides[:axis], 0, *view.strides[axis:])

        def of_classes(view: View) -> Shape:
            return tuple(view.strides[0] if k == axis else 0 for k in range(ndim))

        result: dict[str, Spread] = dict.fromkeys(("t", "g", "total", "loss", "weight"), of_places)
        return result | {"w": of_classes}

    @property
    def scalars(self) -> tuple[float, ...]:
        """The numbers of the programs: smoothing where there is any."""
        return (self.smoothing,) if {"smooth", "probabilities"} & self.flags else ()

    @property
    def integers(self) -> tuple[int, ...]:
        """The integers of the programs of indices."""
        return (self.ignore,) if self.by_index else ()

    def step(
        self,
        engine: Engine,
        program: str,
        flags: set[str],
        operands: Sequence[_Operand],
        scalars: tuple[float, ...],
    ) -> Step:
        """A step of a program on these operands."""
        plan = make_rows(
            engine, [view for _, view in operands], program, frozenset(flags), self.shape,
            frozenset((self.axis,)), self.spreads, scalars,
        )  # fmt: skip
        return Step(plan, tuple(place for place, _ in operands))


def temporary(name: str, shape: Shape, dtype: np.dtype[Any]) -> tuple[Temporary, View]:
    """A temporary of a plan, and a view with its strides."""
    made = Temporary(name, max(1, prod(shape)) * dtype.itemsize, dtype.itemsize)
    return made, View(None, 0, shape, contiguous_strides(shape), dtype)


def total_step(
    engine: Engine,
    inputs: Mapping[str, _Operand],
    result: _Operand,
    scale: float | None,
) -> Step:
    """A step that sums all elements of x (or of squared differences), and divides or scales."""
    shape = next(iter(inputs.values()))[1].shape or (1,)
    spreads: dict[str, Spread] = {"result": lambda _: (0,) * len(shape)}
    flat = {
        name: (place, View(v.buffer, v.offset, shape, v.strides or (1,), v.dtype, v.address))
        for name, (place, v) in inputs.items()
    }
    operands = [*flat.values(), result]
    plan = make_rows(
        engine, [view for _, view in operands], "total", frozenset({*inputs} - {"x"}), shape,
        frozenset(range(len(shape))), spreads, () if scale is None else (scale,),
    )  # fmt: skip
    return Step(plan, tuple(place for place, _ in operands))


def _normalise(arguments: CallArguments) -> Invocation:
    options = arguments.options
    arrays = arguments.inputs
    c = _Classes(arrays[0], arrays[1], arrays[2] if options[1] else None, options)
    inputs = [c.x, c.target, *(() if c.weight is None else (c.weight,))]
    names = ["input", "target", "weight"][: len(inputs)]
    result = len(inputs)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        x, target, out = ((k, views[k]) for k in (0, 1, result))
        operands: list[_Operand]
        weight = [(2, views[2])] if c.weight is not None else []
        steps: list[Step] = []
        loss: _Operand = out if c.reduction == "none" else temporary("losses", c.places, c.wide)
        if prod(c.places):
            if c.by_index:
                weights = temporary("weights", c.places, c.wide)
                operands = [x, *weight, target, loss, weights]
            else:
                operands = [x, target, *weight, loss]
            flags, scalars = c.flags, (*c.scalars, *c.integers)
            steps.append(c.step(engine, c.name, flags, operands, scalars))
        if c.reduction != "none":
            total: dict[str, Any] = {"x": loss}
            scale: float | None = 1.0
            if c.reduction == "mean" and c.by_index:
                total["weight"] = temporary("weights", c.places, c.wide)
                scale = None
            elif c.reduction == "mean":
                scale = 1.0 / prod(c.places) if prod(c.places) else float("nan")
            steps.append(total_step(engine, total, out, scale))
        if c.by_index:
            steps.append(targets_step(engine, target, c.shape[c.axis], c.ignore, result + 1))
        return Steps(steps)

    return Invocation(
        inputs=tuple(inputs),
        names=tuple(names),
        shape=c.places if c.reduction == "none" else (),
        dtype=c.x.dtype,
        plan=plan,
        flop=flop_of(c.shape),
        out=arguments.out,
        report=target_report(c.places, c.shape[c.axis], c.ignore) if c.by_index else None,
    )


def _normalise_gradient(arguments: CallArguments) -> Invocation:
    options, (g, *arrays) = arguments.options, arguments.inputs
    c = _Classes(arrays[0], arrays[1], arrays[2] if options[1] else None, options)
    g = floating(g, "grad_output")
    expected = c.places if c.reduction == "none" else ()
    if g.shape != expected:
        raise ShapeError(
            f"grad_output has shape {g.shape}; with this reduction {expected} would do"
        )
    inputs = [g, c.x, c.target, *(() if c.weight is None else (c.weight,))]
    names = ["grad_output", "input", "target", "weight"][: len(inputs)]
    result = len(inputs)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        g, x, target = ((k, views[k]) for k in range(3))
        weight = [(3, views[3])] if c.weight is not None else []
        out: _Operand = (result, views[result])
        steps: list[Step] = []
        total: list[_Operand] = []
        operands: list[_Operand]
        scale = 1.0
        if c.reduction == "mean" and c.by_index:
            weights: _Operand = temporary("weights", c.places, c.wide)
            total = [temporary("total", (), c.wide)]
            operands = [x, *weight, target, weights]
            weight_flags = c.flags & {"w"}
            steps.append(c.step(engine, "weights", weight_flags, operands, c.integers))
            steps.append(total_step(engine, {"x": weights}, total[0], 1.0))
        elif c.reduction == "mean":
            scale = 1.0 / max(1, prod(c.places))
        flags = c.flags | ({"total"} if total else set())
        scalars = (*c.scalars, scale, *c.integers)
        if c.name == "likelihood":
            operands = [*weight, g, *total, target, out]
        elif c.by_index:
            operands = [x, *weight, g, *total, target, out]
        else:
            operands = [x, target, *weight, g, *total, out]
        steps.append(c.step(engine, f"{c.name}_backward", flags, operands, scalars))
        if c.by_index:
            steps.append(targets_step(engine, target, c.shape[c.axis], c.ignore, result + 1))
        return Steps(steps)

    return Invocation(
        inputs=tuple(inputs),
        names=tuple(names),
        shape=c.shape,
        dtype=c.x.dtype,
        plan=plan,
        flop=flop_of(c.shape),
        out=arguments.out,
        report=target_report(c.places, c.shape[c.axis], c.ignore) if c.by_index else None,
    )


def _normalise_squares(arguments: CallArguments) -> Invocation:
    x, y = floating(arguments.inputs[0], "input"), floating(arguments.inputs[1], "target")
    like(y, "target", x, "input")
    (reduction,) = arguments.options
    scale = 1.0
    if reduction == "mean":
        scale = 1.0 / x.size if x.size else float("nan")

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        operands = {"x": (0, views[0]), "y": (1, views[1])}
        return total_step(engine, operands, (2, views[2]), scale).plan

    return Invocation(
        inputs=(x, y),
        names=("input", "target"),
        shape=(),
        dtype=x.dtype,
        plan=plan,
        flop=flop_of(tuple(x.shape)),
        out=arguments.out,
    )


_LOSS = Operation("loss_of_classes", _normalise)
_GRADIENT = Operation("loss_of_classes_backward", _normalise_gradient)
_SQUARES = Operation("mse_loss", _normalise_squares)
