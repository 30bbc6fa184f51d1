"""Passes on a CPU: a work-item has scratch for as many transforms as a vector has lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.fft.memory import filled, on_device, rank_of, side_arguments
from portable_gpu.ops.fft.passes import Pass
from portable_gpu.ops.fft.policy import CpuFftPolicy
from portable_gpu.ops.fft.tables import (
    Table,
    as_components,
    coarse_roots,
    fine_roots,
    places,
    radices,
    stage_roots,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: Work-items for each compute unit, so that all end at about the same time.
_ITEMS = 4
#: Where the places of rows begin, behind the stages' radices.
_ORDER_AT = 64
#: Programs have the butterflies of one of these sets: few programs, and none has all of them.
_SETS = ((2, 4, 8), (2, 3, 4, 5, 8), (2, 3, 4, 5, 7, 8, 11, 13))


def strips(run: Pass, policy: CpuFftPolicy) -> int:
    """How many strips of lanes a pass has."""
    lanes = policy.vector * run.planes
    return run.count // run.lanes * -(-run.lanes // lanes)


def text(run: Pass, policy: CpuFftPolicy, target: Target) -> Specialization:
    """The kernel of a pass."""
    stages = radices(run.n)
    return specialize(
        "fft/cpu",
        target,
        policy=policy,
        real=run.real,
        source=run.source.side,
        result=run.target.side,
        planes=run.planes,
        twisted=bool(run.whole),
        radices=next(some for some in _SETS if set(stages) <= set(some)),
        rank=rank_of(run),
    )


class CpuPassPlan(Plan):
    """A pass by strips of lanes.

    Operands: what it reads and what it writes, which may be the same; the scalar is the scale.
    """

    def __init__(
        self,
        engine: Engine,
        run: Pass,
        policy: CpuFftPolicy,
        source_factors: Table | None = None,
        target_factors: Table | None = None,
    ) -> None:
        """Build the kernel, and bring its tables to the device."""
        self._last = run.last
        lanes = policy.vector * run.planes
        count = strips(run, policy)
        items = min(count, _ITEMS * engine.target.compute_units)
        each = -(-count // items)
        items = -(-count // each)
        size = 2 * policy.vector * run.n
        itemsize = run.real.itemsize
        self.workspace_bytes = items * size * itemsize
        self.bytes = run.bytes
        stages = radices(run.n)
        order = np.zeros(_ORDER_AT + run.n, np.int32)
        order[: len(stages)] = stages
        order[_ORDER_AT:] = places(stages)
        tables = {"roots": as_components(stage_roots(stages), run.real.real), "order": order}
        if run.whole:
            fine = fine_roots(run.n, run.whole, lanes).reshape(run.n, run.planes, policy.vector)
            parts = np.stack([fine.real, fine.imag], axis=2)
            tables["fine"] = parts.astype(tables["roots"].dtype)
            coarse = coarse_roots(run.n, run.whole, lanes, -(-run.lanes // lanes))
            tables["coarse"] = as_components(coarse, run.real.real)
        for name, side, factors in (
            ("x_factor", run.source, source_factors), ("y_factor", run.target, target_factors)
        ):  # fmt: skip
            if (
                factors is not None
            ):  # whole vectors of lanes are read, of numbers that are not there
                padded = np.zeros(side.rows * max(1, side.limit_row) + lanes, complex)
                padded[: len(factors)] = factors
                tables[name] = as_components(padded, run.real.real)
        self._tables = [on_device(engine, table) for table in tables.values()]
        self._launch = engine.programs.launch(
            text(run, policy, engine.target),
            "fft",
            {
                "size": size, "n": run.n, "lanes": run.lanes, "strips": count, "run": each,
                "flip": int(run.inverse),
                **side_arguments("x", run.source, rank_of(run)),
                **side_arguments("y", run.target, rank_of(run)),
                **{f"batch{d}_size": n for d, n in enumerate(filled(run.batch, rank_of(run), 1))},
            },
            ["scratch", *tables, "x", "y"],
            ["scale", "x_offset", "y_offset"],
            (items,),
            (1,),
        )  # fmt: skip

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (1.0,),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`."""
        scratch = state.workspace(self.workspace_bytes)
        scale = scalars[0] if self._last else 1.0
        return self._launch(state, (scratch, *self._tables, *buffers), (scale, *offsets), wait_for)
