"""Passes on a CPU: a work-item has scratch for as many transforms as a vector has lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.fft.passes import Pass, Rows
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
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target

#: Work-items for each compute unit, so that all end at about the same time.
_ITEMS = 4
#: Where the places of rows begin, behind the stages' radices.
_ORDER_AT = 64
_RANK = 2
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
        rank=_rank(run),
    )


class CpuPassPlan(Plan):
    """A pass by strips of lanes.

    Operands: what it reads, what results are multiplied by, if anything, and what it writes, which
    may be what it reads; the scalar is the scale.
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
        self._last, self._shift = run.last, run.target.shift
        lanes = policy.vector * run.planes
        count = strips(run, policy)
        items = min(count, _ITEMS * engine.target.compute_units)
        each = -(-count // items)
        items = -(-count // each)
        size = 2 * policy.vector * run.n
        itemsize = run.real.itemsize
        self.workspace_bytes = items * size * itemsize
        self.bytes = (
            itemsize
            * run.count
            * sum(side.rows * side.side.components for side in (run.source, run.target))
        )
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
        operands = ["x", "t", "y"] if run.target.times else ["x", "y"]
        self._tables = [_on_device(engine, table) for table in tables.values()]
        self._launch = engine.programs.launch(
            text(run, policy, engine.target),
            "fft",
            {
                "size": size, "n": run.n, "lanes": run.lanes, "strips": count, "run": each,
                "flip": int(run.inverse),
                **_side("x", run.source, _rank(run)), **_side("y", run.target, _rank(run)),
                "y_first": run.target.first_row, "y_begin": run.target.begin, **_times(run),
                **{f"batch{d}_size": n for d, n in enumerate(_filled(run.batch, _rank(run), 1))},
            },
            ["scratch", *tables, *operands],
            ["scale", *(f"{name}_offset" for name in operands)],
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
        *others, at = offsets
        return self._launch(
            state,
            (scratch, *self._tables, *buffers),
            (scale, *others, at - self._shift),
            wait_for,
        )


def _on_device(engine: Engine, table: Table) -> cl.Buffer:
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    filled = table if table.size else np.zeros(1, table.dtype)
    return cl.Buffer(engine.context, flags, hostbuf=np.ascontiguousarray(filled))


def _rank(run: Pass) -> int:
    """How many batch axes the kernel has: those that most arrays need, so that programs are few."""
    return max(_RANK, len(run.batch))


def _filled(values: Shape, rank: int, blank: int) -> Shape:
    return (blank,) * (rank - len(values)) + values


def _side(name: str, rows: Rows, rank: int) -> dict[str, int]:
    return {
        f"{name}_rows": rows.rows, f"{name}_row": rows.row, f"{name}_lane": rows.lane,
        f"{name}_limit": rows.limit, f"{name}_limit_row": rows.limit_row,
        **{f"{name}_batch{d}": step for d, step in enumerate(_filled(rows.batch, rank, 0))},
    }  # fmt: skip


def _times(run: Pass) -> dict[str, int]:
    times, rank = run.target.times, _rank(run)
    if times is None:
        return {}
    return {
        "t_row": times.row, "t_lane": times.lane, "t_conjugate": int(times.conjugate),
        **{f"t_batch{d}": step for d, step in enumerate(_filled(times.batch, rank, 0))},
    }  # fmt: skip
