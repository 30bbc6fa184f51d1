"""Layer, RMS, group, instance and batch normalisation, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import finite, hashable, shown, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ShapeError
from portable_gpu.ops.floats import floating, statistics_dtype
from portable_gpu.ops.normalize.arguments import like, parameter
from portable_gpu.ops.normalize.channels import channels_kernel, channels_plan
from portable_gpu.ops.normalize.cpu_channels import cpu_channels_kernel
from portable_gpu.ops.normalize.cpu_planes import cpu_planes_kernel, cpu_planes_plan
from portable_gpu.ops.normalize.invoke import Spread, flop_of, make_rows, problem_of
from portable_gpu.ops.normalize.kernels import kernel_of
from portable_gpu.ops.normalize.plan import make_plan
from portable_gpu.ops.normalize.programs import program
from portable_gpu.ops.operation import CallArguments, Invocation, Result
from portable_gpu.ops.ordered import OrderedOperation
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, View, contiguous_strides


class NormAxes(NamedTuple):
    """How a normalisation sees its input.

    Attributes:
        shape: The index space.
        row_axes: The axes over which statistics are taken.
        parameter_axes: The axes along which weight and bias differ, in their order.
        statistics: The shape of the statistics.
        element: Gives the strides of an input along the index space.
        parameter: Gives those of a weight or bias.
        statistic: Gives those of a statistic.
        parameters: The shape of weight and bias.
    """

    shape: Shape
    row_axes: frozenset[int]
    parameter_axes: tuple[int, ...]
    statistics: Shape
    element: Spread
    parameter: Spread
    statistic: Spread
    parameters: Shape


def layer_geometry(shape: Shape, normalized_shape: Any) -> NormAxes:
    """Statistics over the last axes, whose extents are ``normalized_shape``."""
    listed = normalized_shape if isinstance(normalized_shape, (tuple, list)) else [normalized_shape]
    extents = tuple(whole(extent, "normalized_shape") for extent in listed)
    k, ndim = len(extents), len(shape)
    if not extents or shape[-k:] != extents:
        raise ShapeError(
            f"normalized_shape is {shown(normalized_shape)}, and the input has shape {shape}; "
            "expected the extents of its last axes"
        )
    return NormAxes(
        shape=shape,
        row_axes=frozenset(range(ndim - k, ndim)),
        parameter_axes=tuple(range(ndim - k, ndim)),
        statistics=(*shape[:-k], *(1,) * k),
        element=lambda view: view.strides,
        parameter=lambda view: (*(0,) * (ndim - k), *view.strides),
        statistic=lambda view: (*view.strides[: ndim - k], *(0,) * k),
        parameters=extents,
    )


def group_geometry(shape: Shape, num_groups: Any) -> NormAxes:
    """Statistics over each group of channels and the axes after them."""
    groups = whole(num_groups, "num_groups")
    if len(shape) < 2:
        raise ShapeError(f"input has shape {shape}; batch and channels are needed")
    batch, channels, *rest = shape
    if groups < 1 or channels % groups:
        raise ArgumentError(
            f"input has shape {shape} and num_groups is {groups}, which does not divide its "
            f"{channels} channels"
        )
    group_channels, tail = channels // groups, (0,) * len(rest)

    def element(view: View) -> Shape:
        first, channel, *others = view.strides
        return (first, channel * group_channels, channel, *others)

    return NormAxes(
        shape=(batch, groups, group_channels, *rest),
        row_axes=frozenset(range(2, 3 + len(rest))),
        parameter_axes=(1, 2),
        statistics=(batch, groups),
        element=element,
        parameter=lambda view: (0, view.strides[0] * group_channels, view.strides[0], *tail),
        statistic=lambda view: (*view.strides, 0, *tail),
        parameters=(channels,),
    )


def batch_geometry(shape: Shape) -> NormAxes:
    """Statistics of each channel over the batch and the axes after the channels."""
    if len(shape) < 2:
        raise ShapeError(f"input has shape {shape}; batch and channels are needed")
    tail = (0,) * (len(shape) - 2)

    def of_channels(view: View) -> Shape:
        return (0, view.strides[0], *tail)

    return NormAxes(
        shape=shape, row_axes=frozenset(range(len(shape))) - {1}, parameter_axes=(1,),
        statistics=(shape[1],), element=lambda view: view.strides, parameter=of_channels,
        statistic=of_channels, parameters=(shape[1],),
    )  # fmt: skip


_GEOMETRIES: dict[str, Callable[..., NormAxes]] = {
    "layer_norm": layer_geometry,
    "rms_norm": layer_geometry,
    "group_norm": group_geometry,
    "batch_norm": batch_geometry,
}
_STATISTICS = {"mean": "mean", "rstd": "rstd"}


def _geometry(kind: str, shape: Shape, argument: Any) -> NormAxes:
    """Return the axes; ``argument`` is ``normalized_shape``, ``num_groups``, or None."""
    return batch_geometry(shape) if kind == "batch_norm" else _GEOMETRIES[kind](shape, argument)


# -- forward


def _normalise(arguments: CallArguments) -> Invocation:
    kind, argument, eps, names, with_statistics = arguments.options
    by_name = dict(zip(("input", *names), arguments.inputs, strict=True))
    x = floating(by_name["input"], "input")
    shape, dtype = tuple(x.shape), x.dtype
    geometry, wide = _geometry(kind, shape, argument), statistics_dtype(dtype)
    # Flags of the program: "w" and "b" for weights and biases, "row_" if a row has only one.
    prefix = "row_" if kind == "batch_norm" else ""
    inputs, labels, flags = [x], ["input"], {"stats"} if with_statistics else set()
    if kind == "rms_norm":
        flags.add("rms")
    for name, flag in (("weight", "w"), ("bias", "b")):
        if name in by_name:
            inputs.append(parameter(by_name[name], name, geometry.parameters, dtype))
            labels.append(name)
            flags.add(prefix + flag)
    stored = _statistics(kind) if with_statistics else ()
    more = [Result(geometry.statistics, wide, f"out ({name})") for name in stored]
    scalars = (finite(eps, "eps"),)
    if arguments.scalars:
        flags.add("running")
        more += [Result(geometry.statistics, wide, f"running_{n}", True) for n in ("mean", "var")]
    if kind == "batch_norm" and prod(shape[:1] + shape[2:]) < 2:
        raise ArgumentError(
            f"input has shape {shape}: a channel has {prod(shape[:1] + shape[2:])} elements, "
            "and training needs 2 at least"
        )
    spreads: dict[str, Spread] = {"x": geometry.element, "y": geometry.element}
    spreads |= dict.fromkeys(("w", "b", "row_w", "row_b"), geometry.parameter)
    spreads |= dict.fromkeys(("mean", "rstd", "running_mean", "running_var"), geometry.statistic)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        return make_rows(
            engine, views, "norm", frozenset(flags), geometry.shape, geometry.row_axes, spreads,
            scalars,
        )  # fmt: skip

    return Invocation(
        inputs=tuple(inputs),
        names=tuple(labels),
        shape=shape,
        dtype=dtype,
        plan=plan,
        flop=flop_of(shape, 8),
        scalars=arguments.scalars,
        out=arguments.out,
        out_name="out (output)",
        more=tuple(more),
    )


def _statistics(kind: str) -> tuple[str, ...]:
    return ("rstd",) if kind == "rms_norm" else ("mean", "rstd")


_FORWARD = OrderedOperation("normalisation", _normalise)


def forward(
    kind: str,
    input: Any,
    argument: Any,
    weight: Any,
    bias: Any,
    eps: Any,
    momentum: Any,
    out: Any,
    place: Mapping[str, Any],
    *,
    with_statistics: bool = True,
) -> Any:
    """Normalise; return the result, its statistics, and the running ones that were updated.

    Without statistics, neither wanted nor running, it is the result alone.
    """
    names: tuple[str, ...] = ()
    arrays: tuple[Any, ...] = (input,)
    for name, array in (("weight", weight), ("bias", bias)):
        if array is not None:
            names, arrays = (*names, name), (*arrays, array)
    options = (kind, hashable(argument), eps, names, with_statistics)
    scalars = () if momentum is None else (finite(momentum, "momentum"),)
    return _FORWARD.call(arrays, options, out, scalars, **place)


# -- backward


def _normalise_backward(arguments: CallArguments) -> Invocation:
    kind, argument, is_fixed, names, wants = arguments.options
    by_name = dict(zip(("grad_output", "input", *names), arguments.inputs, strict=True))
    dy, x = floating(by_name["grad_output"], "grad_output"), floating(by_name["input"], "input")
    like(dy, "grad_output", x, "input")
    shape, dtype = tuple(x.shape), x.dtype
    geometry, wide = _geometry(kind, shape, argument), statistics_dtype(dtype)
    inputs, labels = [dy, x], ["grad_output", "input"]
    decided_by = "this input"
    if argument is not None:
        decided_by += f" and {'num_groups' if kind == 'group_norm' else 'normalized_shape'} "
        decided_by += shown(argument)
    for name in names[: len(_statistics(kind))]:
        inputs.append(parameter(by_name[name], name, geometry.statistics, wide, decided_by))
        labels.append(name)
    if "weight" in by_name:
        inputs.append(parameter(by_name["weight"], "weight", geometry.parameters, dtype))
        labels.append("weight")
    parameters = inputs[-1].dtype if "weight" in by_name else dtype
    more = tuple(Result(geometry.parameters, parameters, f"out (grad_{n})") for n in wants)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        spreads: dict[str, Spread] = dict.fromkeys(("dy", "x", "dx"), geometry.element)
        spreads |= dict.fromkeys(("w", "row_w", "dw", "db"), geometry.parameter)
        spreads |= dict.fromkeys(_STATISTICS, geometry.statistic)
        grads = [f"d{name[0]}" for name in wants]
        weight = "row_w" if kind == "batch_norm" else "w"
        read = ("dy", "x", *_statistics(kind), *((weight,) if "weight" in by_name else ()))
        places = {name: place for place, name in enumerate((*read, "dx", *grads))}

        def step(name: str, flags: Iterable[str], row_axes: frozenset[int]) -> Step:
            chosen = frozenset(flags) | ({"rms"} if kind == "rms_norm" else set())
            operands = tuple([places[operand] for operand in program(name, chosen).operands])
            plan = make_rows(
                engine, [views[place] for place in operands], name, chosen, geometry.shape,
                row_axes, spreads,
            )  # fmt: skip
            return Step(plan, operands)

        scaled = {weight} & set(read)
        if kind == "batch_norm":
            fixed = {"fixed"} if is_fixed else set()
            return Steps([step("norm_backward", {*scaled, *fixed, *grads}, geometry.row_axes)])
        if kind == "group_norm" and x.size:
            flags = {*scaled, *(f"{g}_parts" for g in grads)}
            by_channels = _by_channels(
                engine, views, places, geometry, spreads, frozenset(flags), wide
            )
            if by_channels is not None:
                return by_channels
            if grads and geometry.shape[2] == 1:  # groups of one channel: a row has one weight
                flags = {*(["row_w"] if scaled else []), *grads}
                return _by_rows(engine, views, places, geometry, spreads, frozenset(flags), wide)
        if grads and x.size:
            flags = {
                *scaled,
                *({"rms"} if kind == "rms_norm" else ()),
                *(f"{g}_parts" for g in grads),
            }
            together = _together(engine, views, places, geometry, spreads, frozenset(flags), wide)
            if together is not None:
                return together
        steps = [step("norm_backward", scaled, geometry.row_axes)] if x.size else []
        if grads:
            other_axes = frozenset(range(len(geometry.shape))) - set(geometry.parameter_axes)
            steps.append(step("affine_backward", grads, other_axes))
        return Steps(steps)

    return Invocation(
        inputs=tuple(inputs),
        names=tuple(labels),
        shape=shape,
        dtype=dtype,
        plan=plan,
        flop=flop_of(shape, 12),
        out=arguments.out,
        out_name="out (grad_input)",
        more=more,
    )


def _together(
    engine: Engine,
    views: Sequence[View],
    places: Mapping[str, int],
    geometry: NormAxes,
    spreads: Mapping[str, Spread],
    flags: frozenset[str],
    wide: np.dtype[Any],
) -> Steps | None:
    """The steps that read x and its gradient once, for all three gradients.

    Each work-group adds the gradients of weight and bias of its rows; a second launch adds these
    sums.  It is ``None`` where weight and bias do not have the elements of a row, several groups
    share a row, or rows are few.
    """
    shape, row_axes, parameters = geometry.shape, geometry.row_axes, geometry.parameters
    if frozenset(geometry.parameter_axes) != row_axes:
        return None
    names = program("norm_backward", flags).operands
    parts = [name for name in names if name.endswith("_parts")]
    parts_strides = (*(0,) * (len(shape) - len(parameters)), *contiguous_strides(parameters))
    of_parts = replace(views[0], dtype=wide)
    operands = [of_parts if name in parts else views[places[name]] for name in names]
    strides = {**spreads, **{name: lambda _view: parts_strides for name in parts}}
    problem = problem_of(engine, operands, "norm_backward", flags, shape, row_axes, strides)
    kernel = kernel_of(problem, engine.target, engine.table)
    groups, count = kernel.groups * (kernel.group // kernel.lanes), prod(parameters)
    if kernel.across or kernel.parts > 1 or problem.outer or problem.rows < 4 * groups:
        return None
    if not (kernel.keeps or engine.target.is_cpu):
        return None
    sums = {n: Temporary(n, groups * count * wide.itemsize, wide.itemsize) for n in parts}
    plan = engine.plan(problem, lambda: make_plan(engine, problem))
    steps = [Step(plan, tuple(sums.get(name, places.get(name, 0)) for name in names))]
    return Steps([*steps, *_totals(engine, views, places, sums, of_parts, groups, parameters)])


def _by_channels(
    engine: Engine,
    views: Sequence[View],
    places: Mapping[str, int],
    geometry: NormAxes,
    spreads: Mapping[str, Spread],
    flags: frozenset[str],
    wide: np.dtype[Any],
) -> Steps | None:
    """The steps of groups of channels: one kernel, and the sums over the batch of what it leaves.

    It is ``None`` where no such kernel applies: see :func:`channels_kernel`,
    :func:`cpu_channels_kernel` and :func:`cpu_planes_kernel`.
    """
    shape, (channels,) = geometry.shape, geometry.parameters
    names = program("norm_backward", flags).operands
    parts = [name for name in names if name.endswith("_parts")]
    along = (channels, shape[2], 1, *(0,) * (len(shape) - 3))
    of_parts = replace(views[0], dtype=wide)
    operands = [of_parts if name in parts else views[places[name]] for name in names]
    strides = {**spreads, **{name: lambda _view: along for name in parts}}
    problem = problem_of(
        engine, operands, "norm_backward", flags, shape, geometry.row_axes, strides
    )
    kernel = channels_kernel(problem, engine.target, engine.table)
    planes = cpu_planes_kernel(problem, engine.target, engine.table)
    plan: Plan
    if kernel is not None:
        plan = engine.plan(problem, lambda: channels_plan(engine, kernel))
    elif planes is not None:
        plan = engine.plan(problem, lambda: cpu_planes_plan(engine, planes))
    elif cpu_channels_kernel(problem, engine.target, engine.table) is not None:
        plan = engine.plan(problem, lambda: make_plan(engine, problem))
    else:
        return None
    nbytes = shape[0] * channels * wide.itemsize
    sums = {n: Temporary(n, nbytes, wide.itemsize) for n in parts}
    steps = [Step(plan, tuple(sums.get(name, places.get(name, 0)) for name in names))]
    return Steps([*steps, *_totals(engine, views, places, sums, of_parts, shape[0], (channels,))])


def _by_rows(
    engine: Engine,
    views: Sequence[View],
    places: Mapping[str, int],
    geometry: NormAxes,
    spreads: Mapping[str, Spread],
    flags: frozenset[str],
    wide: np.dtype[Any],
) -> Steps:
    """The steps of groups of one channel: the sums of a row are a part of dw and of db."""
    rows, channels, *others = geometry.shape
    names = program("norm_backward", flags).operands
    places = {**places, "row_w": places.get("w", 0)}
    of_parts, along = replace(views[0], dtype=wide), (channels, 1, *(0 for _ in others))
    parts = [name for name in names if name in ("dw", "db")]
    operands = [of_parts if name in parts else views[places[name]] for name in names]
    strides = {**spreads, **{name: lambda _view: along for name in parts}}
    problem = problem_of(
        engine, operands, "norm_backward", flags, geometry.shape, geometry.row_axes, strides
    )
    nbytes = rows * channels * wide.itemsize
    sums = {n: Temporary(f"{n}_parts", nbytes, wide.itemsize) for n in parts}
    plan = engine.plan(problem, lambda: make_plan(engine, problem))
    steps = [Step(plan, tuple(sums.get(name, places.get(name, 0)) for name in names))]
    return Steps([*steps, *_totals(engine, views, places, sums, of_parts, rows, (channels,))])


def _totals(
    engine: Engine,
    views: Sequence[View],
    places: Mapping[str, int],
    sums: Mapping[str, Temporary],
    of_parts: View,
    rows: int,
    parameters: Shape,
) -> list[Step]:
    """The step, if there are ``sums``, that adds the rows of gradients of weight and bias."""
    if not sums:
        return []
    names = {name: name.removesuffix("_parts") for name in sums}  # of results, by those of parts
    results = [places[name] for name in names.values()]
    along = (prod(parameters), *contiguous_strides(parameters))
    spreads: dict[str, Spread] = {f"{name}_parts": lambda _view: along for name in names.values()}
    spreads |= dict.fromkeys(names.values(), lambda view: (0, *view.strides))
    total = make_rows(
        engine, [*[of_parts for _ in sums], *[views[place] for place in results]], "affine_totals",
        frozenset(names.values()), (rows, *parameters), frozenset({0}), spreads,
    )  # fmt: skip
    return [Step(total, (*sums.values(), *results))]


_BACKWARD = OrderedOperation("normalisation_backward", _normalise_backward, like=1)


def backward(
    kind: str,
    arrays: Sequence[Any],
    argument: Any,
    statistics: Mapping[str, Any],
    weight: Any,
    bias: Any,
    out: Any,
    place: Mapping[str, Any],
    *,
    is_fixed: bool = False,
) -> tuple[Any, Any, Any]:
    """Return the gradients of input, weight and bias, ``None`` where there is no such parameter."""
    names, given = [*statistics], [*statistics.values()]
    wants = [n for n, p in (("weight", weight), ("bias", bias)) if p is not None and p is not False]
    if weight is not None:
        names.append("weight")
        given.append(weight)
    options = (kind, hashable(argument), is_fixed, tuple(names), tuple(wants))
    if out is not None and (not isinstance(out, tuple) or len(out) != 3):
        error = ArgumentError if isinstance(out, tuple) else ArgumentTypeError
        raise error(
            f"out is {shown(out)}; "
            "expected a tuple of the arrays for the gradients of input, weight and "
            "bias, each of them or None"
        )
    if out is not None:
        chosen = [out[0], *(out[1 + ("weight", "bias").index(name)] for name in wants)]
        out = tuple(chosen) if wants else chosen[0]
    grads = _BACKWARD.call((*arrays, *given), options, out, (), **place)
    results = dict(zip(wants, grads[1:], strict=True)) if wants else {}
    return grads[0] if wants else grads, results.get("weight"), results.get("bias")


Place = dict[str, Any]


def place_of(
    engine: Engine | None, queue: cl.CommandQueue | None, wait_for: Sequence[cl.Event] | None
) -> Place:
    """The engine, queue and events of a call as keywords."""
    return {"engine": engine, "queue": queue, "wait_for": wait_for}
