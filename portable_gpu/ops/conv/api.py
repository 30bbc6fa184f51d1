"""Calls of convolutions and of their gradients, for any number of axes of space."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import hashable, of_kind
from portable_gpu.codegen.epilogue import Epilogue, Stage
from portable_gpu.dtypes import Element, element, is_float16_like, requested_precision
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.conv.copies import computed
from portable_gpu.ops.conv.problem import (
    ConvProblem,
    Direction,
    ImageStrides,
    StageArray,
    Triple,
)
from portable_gpu.ops.conv.shapes import ConvExtents, Options, geometry, whole_shape
from portable_gpu.ops.conv.variants import check_algorithm, check_limit, make_plan, seconds_alone
from portable_gpu.ops.operation import CallArguments, Invocation, Operation, complete
from portable_gpu.ops.reduce.conversion import converter
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import Planning
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import Shape, View, as_array, contiguous_strides

#: Makes the plan of a problem, given the algorithm and the limit of workspace.
PlanMaker: TypeAlias = Callable[[Engine, ConvProblem, str, int | None], Plan]
#: The names of x, w and y in messages, by the operation.
_NAMES = {
    "forward": ("input", "weight", "the result"),
    "transposed": ("the result", "weight", "input"),
    "input": ("input_size", "weight", "grad_output"),
    "weight": ("input", "weight_size", "grad_output"),
}
#: The names of the arrays that are read, in the order of :func:`convolve`.
_READ: dict[str, tuple[str, ...]] = {
    "forward": ("input", "weight", "bias"),
    "transposed": ("input", "weight", "bias"),
    "input": ("grad_output", "weight"),
    "weight": ("input", "grad_output"),
}
#: What the expressions of an epilogue call the place of an element of a matrix.
_PLACE_IN_MATRIX = re.compile(r"\b(row|col)\b")
#: The places of x, w and y among the arrays that are read and the result, which is the last.
_PLACES: dict[str, tuple[int, int, int]] = {
    "forward": (0, 1, -1),
    "transposed": (-1, 1, 0),
    "input": (-1, 1, 0),
    "weight": (0, -1, 1),
}


def convolve(
    kind: str,
    inputs: tuple[Any, ...],
    options: Options,
    size: Any = None,
    epilogue: Epilogue | None = None,
    *,
    precision: str | None,
    algo: str,
    workspace_limit: int | None,
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Make a call of one of the public functions of convolutions.

    Args:
        kind: ``forward``, ``transposed`` (a transposed convolution), ``input`` or ``weight``.
        inputs: The arrays that are read: input (or grad_output), then weight (or grad_output), then
            bias if there is one.
        options: Stride, padding, dilation and groups.
        size: ``output_padding`` of a transposed convolution; the shape of the result of a
            gradient.
        epilogue: The stages that each element of a convolution, or of a transposed one, passes.
        precision, algo, workspace_limit, out, engine, queue, wait_for: See
            :func:`portable_gpu.nn.conv2d`.
    """
    rank = options.rank
    asked = _asked(kind, inputs, options, size, epilogue, precision, algo, workspace_limit, out)
    if epilogue is not None:
        inputs = (*inputs, *epilogue.arrays)
    result = _OPERATIONS[kind, rank].call(inputs, asked, out, (), engine, queue, wait_for)
    is_channels_last = asked[-1]
    if not is_channels_last:
        return result
    return result.transpose((0, rank + 1, *range(1, rank + 1)))


def problem_of_call(
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
) -> tuple[Engine, ConvProblem] | None:
    """Return the engine and the problem of a call of :func:`convolve`, which is not made.

    ``None`` if the result has no elements.
    """
    asked = _asked(kind, inputs, options, size, epilogue, precision, "auto", workspace_limit, out)
    if epilogue is not None:
        inputs = (*inputs, *epilogue.arrays)
    planned: list[tuple[Engine, ConvProblem]] = []

    def plan(engine: Engine, problem: ConvProblem, algo: str, limit: int | None) -> Plan:
        planned.append((engine, problem))
        return make_plan(engine, problem, algo, limit)

    invocation = _normalise(kind, options.rank, plan, CallArguments(inputs, asked, out, ()))
    complete(invocation, None, inputs, Planning(engine, queue), None, None)
    return planned[0] if planned else None


def _asked(
    kind: str,
    inputs: tuple[Any, ...],
    options: Options,
    size: Any,
    epilogue: Epilogue | None,
    precision: str | None,
    algo: str,
    workspace_limit: int | None,
    out: Any,
) -> tuple[Any, ...]:
    """Return the options of a call, in the order of :class:`_CallOptions`."""
    stages: tuple[Stage, ...] = ()
    if epilogue is not None:
        stages = of_kind(epilogue, Epilogue, "epilogue", "a portable_gpu.Epilogue or None").stages
    # A result that has the layout of images is channels-last if the images that are read are.
    last = out is None and kind != "weight" and _channels_last(inputs[0], options.rank)
    asked: tuple[Any, ...] = (
        options.stride, options.padding, options.dilation, options.groups, size, precision, algo,
        workspace_limit, stages, len(inputs) > 2, last,
    )  # fmt: skip
    return tuple(map(hashable, asked)) if list in map(type, asked) else asked


def _channels_last(x: Any, rank: int) -> bool:
    """Whether channels are adjacent in memory, and places are not."""
    strides = getattr(x, "strides", None)
    if not isinstance(strides, tuple) or len(strides) != rank + 2:
        return False
    return bool(x.shape[1] > 1 and strides[1] < min(strides[2:]))


class _CallOptions(NamedTuple):
    """The options of a call.

    Attributes:
        stride, padding, dilation, groups, size, precision, algo, workspace_limit: As
            :func:`convolve` takes them.
        stages: The stages of the epilogue.
        biased: Whether a bias is the third input.
        channels_last: Whether a fresh result is channels-last.
    """

    stride: Any
    padding: Any
    dilation: Any
    groups: Any
    size: Any
    precision: str | None
    algo: str
    workspace_limit: int | None
    stages: tuple[Stage, ...]
    biased: bool
    channels_last: bool


def _normalise(kind: str, rank: int, make: PlanMaker, arguments: CallArguments) -> Invocation:
    asked = _CallOptions(*arguments.options)
    size, precision, algo, biased = asked.size, asked.precision, asked.algo, asked.biased
    stages, last = asked.stages, asked.channels_last
    options = Options(rank, asked.stride, asked.padding, asked.dilation, asked.groups)
    names = _NAMES[kind]
    read = _READ[kind][: 2 + biased]
    arrays = tuple([as_array(a, name) for a, name in zip(arguments.inputs, read, strict=False)])
    extras = tuple(
        [as_array(a, "an array of the epilogue") for a in arguments.inputs[2 + biased :]]
    )
    dtype = common_dtype(arrays, read)
    requested_precision(precision)
    check_algorithm(algo)
    limit = check_limit(asked.workspace_limit)
    shapes = [tuple(array.shape) for array in arrays]
    if kind == "forward":
        g = geometry(options, shapes[0], shapes[1], None, names)
    elif kind == "transposed":
        g = geometry(options, None, shapes[1], shapes[0], names, size)
    elif kind == "input":
        x = whole_shape(size, "input_size", rank, rank + 1)
        g = geometry(options, x, shapes[1], shapes[0], names)
    else:
        w = whole_shape(size, "weight_size", rank, rank + 2)
        g = geometry(options, shapes[0], w, shapes[1], names)
    direction: Direction = "forward"
    if kind == "weight":
        direction = "weight"
        shape: Shape = (g.filters, g.channels // g.groups, *g.w_size[3 - rank :])
    elif kind == "forward":
        shape = (g.filters, *g.y_size[3 - rank :])
    else:
        direction = "input"
        shape = (g.channels, *g.x_size[3 - rank :])
    if biased and shapes[2] != shape[:1]:
        raise ShapeError(
            f"bias has shape {shapes[2]}; the {shape[0]} channels of the result need ({shape[0]},)"
        )
    logical = (g.batch, *shape) if g.batched else shape
    reading = check_stages(stages, extras, element(dtype), logical, shape[0])
    if kind != "weight":
        if last:
            shape = (*shape[1:], shape[0])
        shape = (g.batch, *shape) if g.batched else shape

    def problem_of(engine: Engine, views: Sequence[View]) -> ConvProblem:
        bias = views[2].strides[0] if biased else None
        order = _PLACES[kind]
        x, w, y = (views[place] for place in order)
        is_last = [last and place == -1 for place in order]
        return ConvProblem(
            direction=direction, elem=element(dtype), batch=g.batch, groups=g.groups,
            channels=g.channels, filters=g.filters, x_size=g.x_size, w_size=g.w_size,
            y_size=g.y_size, stride=g.stride, dilation=g.dilation, before=g.before,
            x=_operand(x, rank, g.batched, is_last[0]), w=_operand(w, rank, True, False),
            y=_operand(y, rank, g.batched, is_last[2]), bias=bias,
            precision=precision or engine.precision, epilogue=stages,
            extras=tuple(
                of_stage(view, stage, rank)
                for view, stage in zip(views[2 + biased : -1], reading, strict=True)
            ),
        )  # fmt: skip

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        return make(engine, problem_of(engine, views), algo, limit)

    def alone(engine: Engine) -> tuple[float, int]:
        if not prod(shape):
            return 0.0, 1
        out, result = arguments.out, View(None, 0, shape, contiguous_strides(shape), dtype)
        is_array = isinstance(out, (np.ndarray, *DEVICE_KINDS))
        if is_array and out.shape == shape:  # others are refused later
            result = _layout(out)
        views = [*map(_layout, arrays), *map(_layout, extras), result]
        return seconds_alone(problem_of(engine, views), engine, limit)

    return Invocation(
        inputs=(*arrays, *extras),
        names=(*read, *["epilogue"] * len(extras)),
        shape=shape,
        dtype=dtype,
        plan=plan,
        flop=_flop(g),
        alone=alone,
        out=arguments.out,
        convert=None if all(a.dtype == dtype for a in arrays) else converter(dtype),
    )


_OPERATIONS = {
    (kind, rank): Operation(f"conv{rank}d {kind}", partial(_normalise, kind, rank, make_plan))
    for kind in _NAMES
    for rank in (1, 2, 3)
}


def _flop(g: ConvExtents) -> int:
    """Return the operations of a convolution, as if no tap were outside of an image."""
    flop = 2 * g.batch * g.filters * g.channels // g.groups
    for n, k in zip(g.y_size, g.w_size, strict=True):
        flop *= n * k
    return flop


def common_dtype(arrays: Sequence[Any], names: Sequence[str]) -> np.dtype[Any]:
    """Return the dtype in which arrays are convolved.

    Raises:
        DTypeError: One of them is not of real floating numbers, or they have no common dtype.
    """
    for array, name in zip(arrays, names, strict=True):
        if array.dtype.kind != "f" and not is_float16_like(array.dtype):
            raise DTypeError(
                f"{name} is {array.dtype}; float16, bfloat16, float32 and float64 are convolved"
            )
    dtypes = [array.dtype for array in arrays]
    if all(dtype == dtypes[0] for dtype in dtypes):
        result: np.dtype[Any] = dtypes[0]
    else:
        try:
            result = np.result_type(*dtypes)
        except TypeError as error:
            raise DTypeError(f"{', '.join(names)} are {dtypes}: {error}") from None
    element(result)
    return result


def check_stages(
    stages: Sequence[Stage],
    arrays: Sequence[Any],
    elem: Element,
    shape: Shape,
    channels: int,
) -> list[Stage]:
    """Return the stage that reads each array of an epilogue.

    Args:
        stages: The stages.
        arrays: Their arrays.
        elem: The element of the convolution.
        shape: The shape of the result.
        channels: The channels of the result.

    Raises:
        ArgumentError: A stage speaks of the rows or columns of a matrix.
        ShapeError: An array does not broadcast to the result.
        DTypeError: A stage or an array does not suit the values.
    """
    for stage in stages:
        place = _PLACE_IN_MATRIX.search(stage.expression)
        if place is not None or stage.spread == "row":
            used = "an array per row" if place is None else f"the name {place[0]}"
            raise ArgumentError(
                f"epilogue stage {stage.name} has {used}, and the result of a convolution has no "
                "rows and columns; expected per='column', one element for each channel, or an "
                "array that broadcasts to the result"
            )
        stage.check(computed(elem))
    reading = [stage for stage in stages for _ in stage.reads]
    for stage, array in zip(reading, arrays, strict=True):
        have = tuple(array.shape)
        if element(array.dtype).complex:
            raise DTypeError(f"epilogue stage {stage.name} has a complex array, the result is real")
        want, target = shape, "the result"
        if stage.spread == "column":
            want, target = (channels,), "the channels"
        fits = len(have) <= len(want) and all(
            n in (1, m) for n, m in zip(reversed(have), reversed(want), strict=False)
        )
        if not fits:
            raise ShapeError(
                f"epilogue stage {stage.name} has an array of shape {have}, which does not "
                f"broadcast to {target} {want}"
            )
    return reading


def of_stage(view: View, stage: Stage, rank: int) -> StageArray:
    """Return the layout of an array of an epilogue, whose axes are aligned with the result's."""
    strides = [0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True)]
    if stage.spread == "column":
        strides += [0] * rank
    strides = [0] * (rank + 2 - len(strides)) + strides
    outer, channel, *space = strides
    first, second, third = (*(0,) * (3 - rank), *space)
    return StageArray(element(view.dtype), ImageStrides(outer, channel, (first, second, third)))


def _layout(array: Any) -> View:
    """Return a view of an aligned array of the same shape and strides, without memory."""
    strides = tuple([s // array.dtype.itemsize for s in array.strides])
    return View(None, 0, array.shape, strides, array.dtype)


def _operand(view: View, rank: int, batched: bool, last: bool) -> ImageStrides:
    """Return the strides of an array; an axis of one element has the stride 0."""
    strides = [0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True)]
    if not batched:
        strides.insert(0, 0)
    if last:  # (batch, space, channels)
        strides.insert(1, strides.pop())
    outer, channel, *space = strides
    first, second, third = (*(0,) * (3 - rank), *space)
    nbytes = min(16, view.alignment)
    steps: Triple = (first, second, third)
    return ImageStrides(outer, channel, steps, nbytes)
