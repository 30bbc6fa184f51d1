"""Passes on a CPU: a work-item transforms one strip of lanes at a time, in scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from portable_gpu.codegen.parameters import PADDING, Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.caches import L2_BYTES
from portable_gpu.ops.fft.decompositions import Decomposition, PassStep
from portable_gpu.ops.fft.memory import (
    filled,
    rank_of,
    side_arguments,
    side_names,
    times_arguments,
)
from portable_gpu.ops.fft.passes import Pass, PassOperand, RenderedOperand, moved
from portable_gpu.ops.fft.policy import CpuFftPolicy
from portable_gpu.ops.fft.problem import Line
from portable_gpu.ops.fft.tables import (
    Table,
    as_components,
    coarse_roots,
    fine_roots,
    places,
    radices,
    stage_roots,
)
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

#: Work-items for each compute unit, so that all units finish at about the same time.
_ITEMS = 4
#: The index of the positions of rows in a table that starts with the radices of the stages.
_ORDER_AT = 64
#: Programs have the butterflies of one of these sets, so that there are few programs.
_SETS = ((2, 4, 8), (2, 3, 4, 5, 8), (2, 3, 4, 5, 7, 8), (2, 3, 4, 5, 7, 8, 11, 13))


@dataclass(frozen=True)
class _CpuPassText:
    """The properties of a pass for which the text is rendered."""

    source: RenderedOperand
    result: RenderedOperand
    planes: int
    twisted: bool


def strips(pass_: Pass, policy: CpuFftPolicy) -> int:
    """The number of strips of lanes of a pass."""
    return pass_.count // pass_.lanes * _strips_across(pass_, policy)


def _strips_across(pass_: Pass, policy: CpuFftPolicy) -> int:
    return -(-pass_.lanes // (policy.vector * pass_.planes))


def with_fused_passes(found: Sequence[Decomposition], line: Line) -> list[Decomposition]:
    """Add decompositions whose two passes share a launch, if a cache holds a line between them.

    Three passes stay three launches: each has batches of its own.
    """
    fused = [
        replace(decomposition, pass_steps=_with_fused_pairs(decomposition.pass_steps))
        for decomposition in found
        if any(pass_step.pass_.twiddle_length for pass_step in decomposition.pass_steps)
        and not any(
            step.pass_.twiddle_length and following.pass_.twiddle_length
            for step, following in pairwise(decomposition.pass_steps)
        )
        and 2 * line.real.itemsize * max(p.pass_.twiddle_length for p in decomposition.pass_steps)
        <= L2_BYTES // 4
    ]
    return [*found, *fused]


def _with_fused_pairs(pass_steps: Sequence[PassStep]) -> tuple[PassStep, ...]:
    """Return the steps; of each two passes of a line, the second shares the launch of the first."""
    result: list[PassStep] = []
    for pass_step in pass_steps:
        is_second = bool(result) and bool(result[-1].pass_.twiddle_length) and not result[-1].joined
        result.append(replace(pass_step, joined=is_second))
    return tuple(result)


def specialization(
    passes: Sequence[Pass],
    policy: CpuFftPolicy,
    target: Target,
    other_launches: Sequence[Sequence[Pass]] = (),
) -> Specialization:
    """Render the kernel of a pass, or of two in one launch.

    Args:
        passes: The passes.
        policy, target: Their policy, and the device.
        other_launches: The passes of the other launches, which have the same text: one program
            takes less time to compile than one for each.
    """
    launches = [passes, *other_launches]
    stages = {radix for passes in launches for pass_ in passes for radix in radices(pass_.n)}
    real, rank = passes[0].real, _rank(launches)
    rendered = _distinct(launches)
    return specialize(
        "fft/cpu",
        target,
        {"fft": _parameters(rendered, real.real, rank)},
        policy=policy,
        real=real,
        launches=rendered,
        radices=next(some for some in _SETS if stages <= set(some)),
        rank=rank,
    )


def _rank(launches: Sequence[Sequence[Pass]]) -> int:
    return max(rank_of(passes[0]) for passes in launches)


def _rendered_passes(passes: Sequence[Pass]) -> tuple[_CpuPassText, ...]:
    return tuple(
        _CpuPassText(
            _rendered(pass_.source),
            _rendered(pass_.target),
            pass_.planes,
            bool(pass_.twiddle_length),
        )
        for pass_ in passes
    )


def _distinct(launches: Sequence[Sequence[Pass]]) -> list[tuple[_CpuPassText, ...]]:
    """Return the properties of launches that differ, in an order that depends on these alone."""
    return sorted({_rendered_passes(passes) for passes in launches}, key=repr)


def _rendered(side: PassOperand) -> RenderedOperand:
    """The properties of a side; rows of any stride share the text of adjacent ones."""
    rendered = side.rendered
    if rendered.layout == "any" and rendered.form != "folded":  # these are read one by one
        return replace(rendered, layout="along")
    return rendered


def _parameters(
    launches: Sequence[Sequence[_CpuPassText]], real: str, rank: int
) -> list[Parameter]:
    """The parameters of a kernel that computes any of some launches."""
    every = {
        parameter.name: parameter
        for passes in launches
        for parameter in _parameters_of_launch(passes, real, rank)
    }
    return [*every.values(), *(scalars("int", "number") if len(launches) > 1 else ())]


def _parameters_of_launch(passes: Sequence[_CpuPassText], real: str, rank: int) -> list[Parameter]:
    """The parameters for one launch; the sides are x and y, and v and u between two passes."""
    first, last = passes[0], passes[-1]
    batch = [f"batch{d}" for d in range(rank)]
    outer = sides = {"x": first.source, "y": last.result}
    result = [
        _numbers_of("scratch", writes=True),
        *scalars("long", "size", "strips", "run"),
        *scalars("int", "flip"),
        *scalars(real, "scale", alias="real_t"),
    ]
    if len(passes) == 2:
        result += [_numbers_of("between", writes=True), *scalars("long", "between_size")]
        sides = outer | {"v": first.result, "u": last.source}
    for k, pass_ in enumerate(passes):
        result += [_numbers_of(f"roots{k}"), buffer("int", f"order{k}", restrict=False)]
        result += scalars("long", f"n{k}", f"lanes{k}")
        if pass_.twisted:
            result += [_numbers_of(f"fine{k}"), _numbers_of(f"coarse{k}")]
    for name, side in sides.items():
        result += scalars("long", *side_names(name))
        result += scalars("long", f"{name}_limit_batch") * side.stepped
    result += scalars("long", "y_first", "y_begin")
    if last.result.times:
        result += [_numbers_of("t"), *scalars("long", "t_offset", "t_row", "t_lane")]
        result += [
            *scalars("int", "t_conjugate"),
            *scalars("long", *(f"t_{axis}" for axis in batch)),
        ]
    for name, side in outer.items():
        result += [_numbers_of(name, writes=name == "y"), *scalars("long", f"{name}_offset")]
        result += scalars("long", *(f"{name}_{axis}" for axis in batch))
        result += [_numbers_of(f"{name}_factor")] * bool(side.factor)
    return result + scalars("long", *(f"{axis}_size" for axis in batch))


def _numbers_of(name: str, *, writes: bool = False) -> Parameter:
    return buffer("real_t", name, writes=writes, restrict=False)


@dataclass(frozen=True)
class _StripPartition:
    """The partition of a launch into work-items.

    Attributes:
        items: Work-items.
        count: Strips of lanes; with two passes, whole transforms.
        per_item: The maximum of these for a work-item.
        size: Real numbers of a work-item's scratch memory.
        between: Real numbers of a work-item between two passes; 0 for a single pass.
    """

    items: int
    count: int
    per_item: int
    size: int
    between: int

    @classmethod
    def of(cls, passes: Sequence[Pass], policy: CpuFftPolicy, target: Target) -> _StripPartition:
        first, last = passes[0], passes[-1]
        both = len(passes) == 2
        count = first.count // first.lanes if both else strips(first, policy)
        per_item = -(-count // min(count, _ITEMS * target.compute_units))
        size = max(2 * policy.vector * pass_.n for pass_ in passes)
        # The rows of the first pass may be the lanes of the second.
        between = 2 * max(first.target.rows * first.lanes, last.source.rows * last.lanes)
        return cls(-(-count // per_item), count, per_item, size, between if both else 0)


def _numbers(passes: Sequence[Pass], work: _StripPartition, rank: int) -> dict[str, int]:
    """Return the arguments that are the same in all calls, by the names of the parameters."""
    first, last = passes[0], passes[-1]
    constants = {
        "size": work.size,
        "strips": work.count,
        "run": work.per_item,
        "flip": int(first.inverse),
    }
    for k, pass_ in enumerate(passes):
        constants |= {f"n{k}": pass_.n, f"lanes{k}": pass_.lanes}
    if work.between:
        constants["between_size"] = work.between
        for name, side in (("v", first.target), ("u", last.source)):
            constants |= side_arguments(name, replace(side, batch=()), 0)
    for name, side in (("x", first.source), ("y", last.target)):
        constants |= side_arguments(name, side, rank)
    return {
        **constants,
        "y_first": last.target.first_row, "y_begin": last.target.begin,
        **times_arguments(last.target.times, rank),
        **{f"batch{d}_size": n for d, n in enumerate(filled(first.batch, rank, 1))},
    }  # fmt: skip


def cpu_pass_plan(
    engine: Engine,
    passes: Sequence[Pass],
    policy: CpuFftPolicy,
    factors: tuple[Table | None, Table | None] = (None, None),
    other_launches: Sequence[Sequence[Pass]] = (),
) -> OneLaunch:
    """Return the plan of a pass by strips of lanes, or of two by whole transforms, in one launch.

    Operands: the source; the array by which results are multiplied, if any; the target, which may
    be the source.  The scalar is the scale.

    Args:
        engine: The device.
        passes: One pass, or two of which the second reads the results of the first.
        policy: Their policy.
        factors: The tables by which the first source and the last target are multiplied.
        other_launches: The passes of the other launches, which have the same text.
    """
    first, last = passes[0], passes[-1]
    work = _StripPartition.of(passes, policy, engine.target)
    itemsize = first.real.itemsize
    sizes = {"scratch": work.size, "between": work.between}
    workspaces = {name: work.items * size * itemsize for name, size in sizes.items()}
    tables: dict[str, Table] = {}
    for k, pass_ in enumerate(passes):
        tables |= {f"{name}{k}": table for name, table in _tables(pass_, policy).items()}
    for name, side, table in zip("xy", (first.source, last.target), factors, strict=True):
        if table is not None:  # the kernel reads whole vectors of lanes, also beyond the end
            padded = np.zeros(
                side.rows * max(1, side.limit_row) + policy.vector * first.planes, complex
            )
            padded[: len(table)] = table
            tables[f"{name}_factor"] = as_components(padded, first.real.real)
    operands = ["x", "t", "y"] if last.target.times else ["x", "y"]
    launches = [passes, *other_launches]
    spec = specialization(passes, policy, engine.target, other_launches)
    scalars = {"scale": 1.0}
    buffers = [*(name for name, size in workspaces.items() if size), *operands]
    offsets = [f"{name}_offset" for name in operands]
    constants: dict[str, int | None] = {**_numbers(passes, work, _rank(launches))}
    if len(distinct := _distinct(launches)) > 1:
        constants["number"] = distinct.index(_rendered_passes(passes))
    passed = {*constants, *buffers, *scalars, *offsets, *tables}
    for parameter in spec.parameters("fft"):  # those that only other launches need
        if parameter.name not in passed and not parameter.name.startswith(PADDING):
            constants[parameter.name] = None if parameter.scalar is None else 0
    return OneLaunch(
        engine, spec, "fft", constants, operands, (work.items,), (1,),
        starts=(*(0 for _ in operands[:-1]), -last.target.shift), scalars=scalars, tables=tables,
        workspaces=workspaces, nbytes=moved(passes),
    )  # fmt: skip


def _tables(pass_: Pass, policy: CpuFftPolicy) -> dict[str, Table]:
    """Return the tables of a pass, by the names of the kernel's parameters."""
    lanes, stages = policy.vector * pass_.planes, radices(pass_.n)
    order = np.zeros(_ORDER_AT + pass_.n, np.int32)
    order[: len(stages)] = stages
    order[_ORDER_AT:] = places(stages)
    tables = {"roots": as_components(stage_roots(stages), pass_.real.real), "order": order}
    if pass_.twiddle_length:
        fine = fine_roots(pass_.n, pass_.twiddle_length, lanes).reshape(
            pass_.n, pass_.planes, policy.vector
        )
        parts = np.stack([fine.real, fine.imag], axis=2)
        tables["fine"] = parts.astype(tables["roots"].dtype)
        coarse = coarse_roots(pass_.n, pass_.twiddle_length, lanes, _strips_across(pass_, policy))
        tables["coarse"] = as_components(coarse, pass_.real.real)
    return tables
