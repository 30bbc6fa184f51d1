"""Passes on a GPU: a work-group has one transform, or several side by side, in its registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.fft.grouping import group_plan
from portable_gpu.ops.fft.memory import filled, rank_of, side_arguments, times_arguments
from portable_gpu.ops.fft.passes import Pass
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.shape import GroupPlan
from portable_gpu.ops.fft.tables import Table, as_components, chirp, chirp_filter, roots
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: Where a compute unit has no more groups, roots are read early also in the first of two passes, of
#: which other roots take registers.  H200, complex64: 2^20 in 15 us, late in 16.5; but 64 lines of
#: 2^18 in 177 us, late in 161, and 2^26 in 1.03 ms, late in 0.92.
_FEW_GROUPS = 2


def text(runs: Sequence[Pass], policy: GroupFftPolicy, target: Target) -> Specialization:
    """The kernel of a pass."""
    (run,) = runs
    plan = group_plan(run, policy, target)
    return specialize(
        "fft/group",
        target,
        policy=policy,
        plan=plan,
        early=_reads_early(run, plan, target),
        real=run.real,
        source=run.source.side,
        result=run.target.side,
        planes=run.planes,
        all_in=run.source.is_whole(run.n, run.lanes),
        all_out=run.target.is_whole(run.n, run.lanes),
        twisted=bool(run.whole),
        rank=rank_of(run),
    )


def groups(run: Pass, plan: GroupPlan) -> int:
    """How many work-groups a pass has."""
    return run.count // run.lanes * -(-run.lanes // (plan.slots * run.planes))


def _reads_early(run: Pass, plan: GroupPlan, target: Target) -> bool:
    """Whether there are registers for the roots of the next stage while numbers are exchanged."""
    words = 2 * plan.held * run.real.itemsize // 4
    few = groups(run, plan) <= _FEW_GROUPS * target.compute_units
    return 3 * words <= target.resident_registers and (few or not run.whole)


class GroupPassPlan(Plan):
    """A pass by work-groups.

    Operands: what it reads, what results are multiplied by, if anything, and what it writes, which
    may be what it reads; the scalar is the scale.
    """

    def __init__(
        self,
        engine: Engine,
        runs: Sequence[Pass],
        policy: GroupFftPolicy,
        factors: tuple[Table | None, Table | None] = (None, None),
    ) -> None:
        """Build the kernel of the one pass, and bring its tables to the device."""
        (run,) = runs
        self._shift = run.target.shift
        self.bytes = run.bytes
        plan = group_plan(run, policy, engine.target)
        tables = {"roots": _stage_roots(plan)}
        constants = {"lanes": run.lanes, "flip": int(run.inverse)}
        if plan.chirp:
            constants["n"] = run.n
            tables["chirp"] = chirp(run.n, False, run.n)
            tables["filter"] = chirp_filter(run.n, False, plan.length).conj()
        if run.whole:
            constants["shift"] = (run.whole.bit_length() + 1) // 2
            tables |= _roots_of_all(run.whole, constants["shift"])
        for name, table in zip(("x_factor", "y_factor"), factors, strict=True):
            if table is not None:
                tables[name] = table
        parts = {name: as_components(table, run.real.real) for name, table in tables.items()}
        self.kept_bytes = sum(table.nbytes for table in parts.values())
        rank = rank_of(run)
        operands = ["x_in", "t_in", "y_in"] if run.target.times else ["x_in", "y_in"]
        self._launch = engine.programs.launch(
            text(runs, policy, engine.target),
            "fft",
            {
                **constants, **side_arguments("x", run.source, rank),
                **side_arguments("y", run.target, rank),
                "y_first": run.target.first_row, "y_begin": run.target.begin,
                **times_arguments(run.target.times, rank),
                **{f"batch{d}_size": n for d, n in enumerate(filled(run.batch, rank, 1))},
            },
            operands,
            ["scale", *(f"{name[0]}_offset" for name in operands)],
            (groups(run, plan) * plan.group,),
            (plan.group,),
            kept={name: engine.bring(table) for name, table in parts.items()},
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
        *others, at = offsets
        places = (*scalars, *others, at - self._shift)
        return self._launch(state, buffers, places, wait_for)


def _stage_roots(plan: GroupPlan) -> Table:
    """Of each stage but the first: exp(-2 pi i k r / (N R)) for r = 1, 2, 4 ... and k < N."""
    found = [np.zeros(0, complex)]
    for stage in plan.stages[1:]:
        powers = [1 << bit for bit in range((stage.radix - 1).bit_length())]
        found.append(
            roots(np.outer(powers, np.arange(stage.before)), stage.before * stage.radix).ravel()
        )
    return np.concatenate(found)


def _roots_of_all(whole: int, shift: int) -> dict[str, Table]:
    """Two tables whose products are all roots of one of order ``whole``."""
    coarse = np.arange((whole >> shift) + 1, dtype=np.int64) << shift
    return {"coarse": roots(coarse, whole), "fine": roots(np.arange(1 << shift), whole)}
