"""The calls of losses: their checks, and the plans of their programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from portable_gpu.arguments import finite, one_of, whole
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.floats import floating, statistics_dtype
from portable_gpu.ops.normalize.arguments import like, parameter
from portable_gpu.ops.normalize.invoke import Spread, flop_of, make_rows
from portable_gpu.ops.normalize.targets import target_report, targets_step
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.ordered import OrderedOperation
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, View, as_array, contiguous_strides

REDUCTIONS = ("none", "mean", "sum")
#: An operand of a step: the index of the call's operand, or a temporary; and its view.
_Operand = tuple[int | Temporary | Part, View]


class _Classes:
    """The checked arguments of a loss of classes.

    Attributes:
        name: The name of the program: ``entropy`` or ``likelihood``.
        x, target, weight: The inputs; the weight of each class may be ``None``.
        reduction, smoothing, ignore: The options ``reduction``, ``label_smoothing`` and
            ``ignore_index``.
        shape, axis: The shape of ``x``, and its axis of classes.
        places: The shape of the losses: that of ``x`` without the axis of classes.
        by_index: Whether targets are indices of classes; otherwise they are probabilities.
        wide: The dtype of losses, weights and their sums.
    """

    def __init__(self, input: Any, target: Any, weight: Any, options: Sequence[Any]) -> None:
        """Check the arguments."""
        self.name, _, ignore, reduction, smoothing = options
        self.x, self.target = floating(input, "input"), as_array(target, "target")
        self.reduction = one_of(reduction, REDUCTIONS, "reduction")
        self.smoothing = finite(smoothing, "label_smoothing")
        if not 0 <= self.smoothing <= 1:
            raise ArgumentError(f"label_smoothing is {smoothing}; expected a number from 0 to 1")
        self.ignore = whole(ignore, "ignore_index")
        if not -(1 << 63) <= self.ignore < 1 << 63:
            raise ArgumentError(f"ignore_index is {ignore}; expected a 64-bit integer")
        shape = tuple(self.x.shape)
        if not shape:
            raise ShapeError("input has no axes; one of classes is needed")
        self.shape, self.axis = shape, 1 if len(shape) > 1 else 0
        self.places: Shape = shape[: self.axis] + shape[self.axis + 1 :]
        self.by_index = self.target.dtype.kind in "iu"
        if self.by_index and self.target.shape != self.places:
            raise ShapeError(
                f"target has shape {self.target.shape}; "
                f"expected {self.places} with an input of {shape}"
            )
        if not self.by_index:
            if self.name == "likelihood" or self.target.dtype.kind in "bc":
                raise DTypeError(f"target is {self.target.dtype}; expected integers")
            like(self.target, "target", self.x, "input")
            if self.ignore >= 0:
                raise ArgumentError(
                    f"ignore_index is {self.ignore} and the targets are probabilities; expected a "
                    "negative number, which has no effect, or targets that are classes"
                )
        self.wide = statistics_dtype(self.x.dtype)
        classes = (shape[self.axis],)
        self.weight = None if weight is None else parameter(weight, "weight", classes, self.x.dtype)

    @property
    def flags(self) -> set[str]:
        """The flags of the programs: which operands they have."""
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
        """For the operands of another shape than ``x``, how their strides along its axes follow."""
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
        """Return a step that runs a program on some operands, in the order of the program."""
        plan = make_rows(
            engine, [view for _, view in operands], program, frozenset(flags), self.shape,
            frozenset((self.axis,)), self.spreads, scalars,
        )  # fmt: skip
        return Step(plan, tuple(place for place, _ in operands))


def temporary(name: str, shape: Shape, dtype: np.dtype[Any]) -> tuple[Temporary, View]:
    """Return a temporary of a plan, and a C-ordered view of it."""
    made = Temporary(name, max(1, prod(shape)) * dtype.itemsize, dtype.itemsize)
    return made, View(None, 0, shape, contiguous_strides(shape), dtype)


def total_step(
    engine: Engine,
    inputs: Mapping[str, _Operand],
    result: _Operand,
    scale: float | None,
) -> Step:
    """Return a step that adds up all elements, and divides or scales the sum.

    Args:
        engine: The engine of the plan.
        inputs: ``x``, whose elements are added up; with ``y``, the squares of the differences are;
            with ``divisor``, the sum is divided by the sum of the divisors.
        result: The result, a number.
        scale: The factor of the sum; ``None`` with ``divisor``.
    """
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
    has_weight = options[1]
    c = _Classes(arrays[0], arrays[1], arrays[2] if has_weight else None, options)
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
                total["divisor"] = temporary("weights", c.places, c.wide)
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
    has_weight = options[1]
    c = _Classes(arrays[0], arrays[1], arrays[2] if has_weight else None, options)
    g = floating(g, "grad_output")
    expected = c.places if c.reduction == "none" else ()
    if g.shape != expected:
        raise ShapeError(
            f"grad_output has shape {g.shape}; expected {expected} with this reduction"
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
            steps.append(c.step(engine, "target_weights", weight_flags, operands, c.integers))
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


LOSS = Operation("loss_of_classes", _normalise)
GRADIENT = OrderedOperation("loss_of_classes_backward", _normalise_gradient, like=1)
SQUARES = Operation("mse_loss", _normalise_squares)
