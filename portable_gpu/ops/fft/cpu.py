"""Passes on a CPU: a work-item has scratch for as many transforms as a vector has lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.caches import L2_BYTES
from portable_gpu.ops.fft.memory import filled, rank_of, side_arguments, times_arguments
from portable_gpu.ops.fft.passes import Pass, Side, moved
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
from portable_gpu.ops.fft.ways import Leg, Way
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: Work-items for each compute unit, so that all end at about the same time.
_ITEMS = 4
#: Where the places of rows begin, behind the stages' radices.
_ORDER_AT = 64
#: Programs have the butterflies of one of these sets: few programs, and none has all of them.
_SETS = ((2, 4, 8), (2, 3, 4, 5, 8), (2, 3, 4, 5, 7, 8), (2, 3, 4, 5, 7, 8, 11, 13))


@dataclass(frozen=True)
class _Shown:
    """What the kernel's text shows of a pass."""

    source: Side
    result: Side
    planes: int
    twisted: bool


def strips(run: Pass, policy: CpuFftPolicy) -> int:
    """How many strips of lanes a pass has."""
    return run.count // run.lanes * _strips_across(run, policy)


def _strips_across(run: Pass, policy: CpuFftPolicy) -> int:
    return -(-run.lanes // (policy.vector * run.planes))


def with_joined(found: Sequence[Way], line: Line) -> list[Way]:
    """Ways, and those whose two passes one launch can make: a cache holds a line in between.

    Three passes stay three launches: each has batches of its own.
    """
    more = [
        replace(way, legs=_joined(way.legs))
        for way in found
        if any(leg.run.whole for leg in way.legs)
        and not any(one.run.whole and two.run.whole for one, two in pairwise(way.legs))
        and max(leg.run.whole for leg in way.legs) * 2 * line.real.itemsize <= L2_BYTES // 4
    ]
    return [*found, *more]


def _joined(legs: Sequence[Leg]) -> tuple[Leg, ...]:
    """The legs, the second of each two of a line joined to the first."""
    found: list[Leg] = []
    for leg in legs:
        after = bool(found) and bool(found[-1].run.whole) and not found[-1].joined
        found.append(replace(leg, joined=after))
    return tuple(found)


def text(runs: Sequence[Pass], policy: CpuFftPolicy, target: Target) -> Specialization:
    """The kernel of a pass, or of two."""
    stages = {radix for run in runs for radix in radices(run.n)}
    return specialize(
        "fft/cpu",
        target,
        policy=policy,
        real=runs[0].real,
        passes=[
            _Shown(run.source.side, run.target.side, run.planes, bool(run.whole)) for run in runs
        ],
        radices=next(some for some in _SETS if stages <= set(some)),
        rank=rank_of(runs[0]),
    )


@dataclass(frozen=True)
class _Work:
    """How a launch is shared among work-items.

    Attributes:
        items: Work-items.
        count: Strips of lanes, or of two passes whole transforms.
        each: Those of a work-item, at most.
        size: Real numbers of a work-item's scratch.
        between: And of what it has between two passes, if there are two.
    """

    items: int
    count: int
    each: int
    size: int
    between: int

    @classmethod
    def of(cls, runs: Sequence[Pass], policy: CpuFftPolicy, target: Target) -> _Work:
        first, last = runs[0], runs[-1]
        both = len(runs) == 2
        count = first.count // first.lanes if both else strips(first, policy)
        each = -(-count // min(count, _ITEMS * target.compute_units))
        size = max(2 * policy.vector * run.n for run in runs)
        # Rows of what lies between may be lanes of the second pass.
        between = 2 * max(first.target.rows * first.lanes, last.source.rows * last.lanes)
        return cls(-(-count // each), count, each, size, between if both else 0)


def _numbers(runs: Sequence[Pass], work: _Work) -> dict[str, int]:
    """What stays the same in all calls, by the names that the kernel has for it."""
    first, last, rank = runs[0], runs[-1], rank_of(runs[0])
    found = {"size": work.size, "strips": work.count, "run": work.each, "flip": int(first.inverse)}
    for k, run in enumerate(runs):
        found |= {f"n{k}": run.n, f"lanes{k}": run.lanes}
    if work.between:
        found["between_size"] = work.between
        for name, side in (("v", first.target), ("u", last.source)):
            found |= side_arguments(name, replace(side, batch=()), 0)
    for name, side in (("x", first.source), ("y", last.target)):
        found |= side_arguments(name, side, rank)
    return {
        **found,
        "y_first": last.target.first_row, "y_begin": last.target.begin,
        **times_arguments(last.target.times, rank),
        **{f"batch{d}_size": n for d, n in enumerate(filled(first.batch, rank, 1))},
    }  # fmt: skip


class CpuPassPlan(Plan):
    """A pass by strips of lanes, or two by whole transforms, in one launch.

    Operands: what it reads, what results are multiplied by, if anything, and what it writes, which
    may be what it reads; the scalar is the scale.
    """

    def __init__(
        self,
        engine: Engine,
        runs: Sequence[Pass],
        policy: CpuFftPolicy,
        factors: tuple[Table | None, Table | None] = (None, None),
    ) -> None:
        """Build the kernel, and bring its tables to the device.

        Args:
            engine: The device.
            runs: One pass, or two of which the second reads what the first one wrote.
            policy: How.
            factors: What the source of the first and the target of the last are multiplied by.
        """
        first, last = runs[0], runs[-1]
        work = _Work.of(runs, policy, engine.target)
        itemsize = first.real.itemsize
        self._rooms = [work.items * size * itemsize for size in (work.size, work.between) if size]
        self.workspace_bytes = sum(self._rooms)
        self._shift = last.target.shift
        self.bytes = moved(runs)
        tables: dict[str, Table] = {}
        for k, run in enumerate(runs):
            tables |= {f"{name}{k}": table for name, table in _tables(run, policy).items()}
        for name, side, table in zip("xy", (first.source, last.target), factors, strict=True):
            if table is not None:  # whole vectors of lanes are read, of numbers that are not there
                padded = np.zeros(
                    side.rows * max(1, side.limit_row) + policy.vector * first.planes, complex
                )
                padded[: len(table)] = table
                tables[f"{name}_factor"] = as_components(padded, first.real.real)
        operands = ["x", "t", "y"] if last.target.times else ["x", "y"]
        held = {name: engine.bring(table) for name, table in tables.items()}
        self.kept_bytes = sum(table.nbytes for table in tables.values())
        self._launch = engine.programs.launch(
            text(runs, policy, engine.target),
            "fft",
            _numbers(runs, work),
            ["scratch", *["between"] * bool(work.between), *operands],
            ["scale", *(f"{name}_offset" for name in operands)],
            (work.items,),
            (1,),
            kept=held,
        )

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (1.0,),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`."""
        rooms = [state.workspace(nbytes) for nbytes in self._rooms]
        *others, at = offsets
        return self._launch(
            state,
            (*rooms, *buffers),
            (*scalars, *others, at - self._shift),
            wait_for,
        )


def _tables(run: Pass, policy: CpuFftPolicy) -> dict[str, Table]:
    """What a pass reads besides its rows, by the names of the kernel's parameters."""
    lanes, stages = policy.vector * run.planes, radices(run.n)
    order = np.zeros(_ORDER_AT + run.n, np.int32)
    order[: len(stages)] = stages
    order[_ORDER_AT:] = places(stages)
    found = {"roots": as_components(stage_roots(stages), run.real.real), "order": order}
    if run.whole:
        fine = fine_roots(run.n, run.whole, lanes).reshape(run.n, run.planes, policy.vector)
        parts = np.stack([fine.real, fine.imag], axis=2)
        found["fine"] = parts.astype(found["roots"].dtype)
        coarse = coarse_roots(run.n, run.whole, lanes, _strips_across(run, policy))
        found["coarse"] = as_components(coarse, run.real.real)
    return found
