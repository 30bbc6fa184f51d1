"""Passes on a GPU: a work-group has one transform, or several side by side, in its registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.fft.grouping import fills_unit, group_plans, groups, has_own_parts
from portable_gpu.ops.fft.joined import lag
from portable_gpu.ops.fft.memory import filled, rank_of, side_arguments, times_arguments
from portable_gpu.ops.fft.passes import Pass, Rows, Side, moved
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.shape import GroupPlan
from portable_gpu.ops.fft.tables import (
    Table,
    as_components,
    chirp,
    chirp_filter,
    powers_of_generator,
    rader_filter,
    roots,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: Where a compute unit has no more groups, roots are read early also in the first of two passes, of
#: which other roots take registers.  H200, complex64: 2^20 in 15 us, late in 16.5; but 64 lines of
#: 2^18 in 177 us, late in 161, and 2^26 in 1.03 ms, late in 0.92.
_FEW_GROUPS = 2
#: Larger groups have no registers for all loads at once.  H200, complex64: 4096 of 4093 in 270 us,
#: with conditions 280, 65536 of 101 in 57 and 75; but 2^26 by passes of 512 in 945 and 920, and
#: 131072 real lines of 256, several pairs in a group, in 82 and 77.
_SMALL_GROUP = 256
#: The longest columns whose roots between two passes are brought to local memory.  H200, us, read
#: where they are wanted in brackets: 2^24 as 256 x 256 x 256 222 (225), complex128 414 (420), 256
#: lines of 2^16 125 (129); but 64 lines of 2^18 as 512 x 512 152 (147), 8 of 2^20 in complex128 192
#: (182).
_BROUGHT = 256
#: Bytes of local memory beside numbers where lines come ahead: a barrier, and places in line.
_BARRIERS = 256


@dataclass(frozen=True)
class _Shown:
    """What the kernel's text shows of a pass; see ``cl_kernels/fft/group``."""

    tag: str
    between: str
    plan: GroupPlan
    early: bool
    source: Side
    result: Side
    planes: int
    all_in: bool
    all_out: bool
    twisted: bool
    twists: int
    by_batch: bool
    scaled: bool
    sure: bool
    ahead: bool


def text(runs: Sequence[Pass], policy: GroupFftPolicy, target: Target) -> Specialization:
    """The kernel of a pass, or of two that share a launch."""
    plans = group_plans(runs, policy, target)
    tags = ("0", "1") if len(runs) == 2 else ("",)
    return specialize(
        "fft/group",
        target,
        policy=policy,
        real=runs[0].real,
        passes=[
            _Shown(
                tag,
                between if len(runs) == 2 else "",
                plan,
                _reads_early(run, plan, target),
                _side(run, run.source, plan.staged_source, plan),
                _side(run, run.target, plan.staged_target, plan),
                run.planes,
                run.source.is_whole(run.n, run.lanes),
                run.target.is_whole(run.n, run.lanes),
                bool(run.whole),
                plan.twists(run.target.form) if brings_twists(run, plan, target) else 0,
                run.by_batch,
                run.scaled,
                _loads_at_once(run, plan),
                len(runs) == 1 and _comes_ahead(run, plan, target),
            )
            for run, plan, tag, between in zip(runs, plans, tags, "yx", strict=False)
        ],
        inverse=runs[0].inverse,
        rank=max(map(rank_of, runs)),
        alone=has_own_parts(runs, plans),
    )


def _side(run: Pass, rows: Rows, staged: bool, plan: GroupPlan) -> Side:
    """What the text is for: staged lines without gaps are gone through number by number."""
    dense = staged and not plan.chirp and rows.is_whole(run.n, run.lanes)
    return replace(rows.side, dense=rows.dense if dense else 0)


def brings_twists(run: Pass, plan: GroupPlan, target: Target) -> bool:
    """Whether roots between two passes go through local memory on their way.

    Those of staged rows do, of which a work-item has every so many of one slot.
    """
    room = (plan.local_numbers + 2 * plan.twists(run.target.form)) * run.real.itemsize
    if not run.whole or room > target.static_local_mem:
        return False
    if run.by_batch or not plan.staged_target:
        return run.n <= _BROUGHT and not plan.staged_target
    return plan.target_across or plan.slots == 1


def _loads_at_once(run: Pass, plan: GroupPlan) -> bool:
    """Whether loads have no condition: drivers let each that has one wait for that before it."""
    paired = run.planes > 1 and plan.slots > 1 and not plan.source_across
    small = plan.group <= _SMALL_GROUP and not (plan.staged_source or paired)
    return small and (run.source.form != "folded" or run.source.is_whole(run.n, run.lanes))


def _comes_ahead(run: Pass, plan: GroupPlan, target: Target) -> bool:
    """Whether the copy engine brings a group's next line while it transforms one.

    That is of use to groups that fill a compute unit, whose neighbours do not compute meanwhile.
    """
    rows = run.source
    straight = rows.form == "complex" and rows.row == 1 and rows.is_whole(run.n, run.lanes)
    several = groups(run, plan) > target.compute_units and fills_unit(plan, run, target)
    room = (plan.local_numbers + 2 * run.n) * run.real.itemsize + _BARRIERS
    return (
        target.matrix_units == "wgmma"  # devices with that engine
        and straight
        and several
        and plan.slots == 1
        and not (plan.back or plan.staged_source or rows.factor)
        and room <= target.static_local_mem
    )


def _reads_early(run: Pass, plan: GroupPlan, target: Target) -> bool:
    """Whether there are registers for the roots of the next stage while numbers are exchanged."""
    words = 2 * plan.held * run.real.itemsize // 4
    few = groups(run, plan) <= _FEW_GROUPS * target.compute_units
    return 3 * words <= target.resident_registers and (few or not run.whole)


class GroupPassPlan(Plan):
    """A pass by work-groups, or two of which a part of the second follows one of the first.

    Operands: what it reads; what lies between two passes, if there are two; what results are
    multiplied by, if anything; what it writes, which may be what it reads.  The scalar is the
    scale.
    """

    def __init__(
        self,
        engine: Engine,
        runs: Sequence[Pass],
        policy: GroupFftPolicy,
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
        self._shift, self._scaled = last.target.shift, last.scaled
        self.bytes = moved(runs)
        plans = group_plans(runs, policy, engine.target)
        rank = max(map(rank_of, runs))
        tags = ("0", "1") if len(runs) == 2 else ("",)
        constants: dict[str, int] = {}
        tables: dict[str, Table] = {}
        for run, plan, tag in zip(runs, plans, tags, strict=True):
            own_tables, own_constants = _given(run, plan, rank)
            tables |= {f"{name}{tag}": table for name, table in own_tables.items()}
            constants |= {f"{name}{tag}": value for name, value in own_constants.items()}
        names = [f"x_in{tags[0]}", f"t_in{tags[-1]}", f"y_in{tags[-1]}"]
        for name, table in zip((f"x_factor{tags[0]}", f"y_factor{tags[-1]}"), factors, strict=True):
            if table is not None:
                tables[name] = table
        operands = names if last.target.times else [names[0], names[2]]
        if len(runs) == 2:
            operands.insert(1, "between_in")
        each = [groups(run, plan) for run, plan in zip(runs, plans, strict=True)]
        self._counters = 0
        if has_own_parts(runs, plans):
            each = each[:1]
        elif len(runs) == 2:
            self._counters = 2 + first.parts
            constants |= {
                "parts": first.parts, "lag": lag(first, engine.target),
                **{f"groups{k}": count // first.parts for k, count in enumerate(each)},
            }  # fmt: skip
        total = sum(each)
        if len(runs) == 1 and _comes_ahead(first, plans[0], engine.target):
            constants["groups"] = total
            total = min(total, engine.target.compute_units)
        parts = {
            name: table if table.dtype.kind == "u" else as_components(table, first.real.real)
            for name, table in tables.items()
        }
        self.kept_bytes = sum(table.nbytes for table in parts.values())
        self._launch = engine.programs.launch(
            text(runs, policy, engine.target),
            "fft",
            constants,
            [*operands, *(["counters"] if self._counters else [])],
            [*["scale"] * last.scaled, *(name.replace("in", "offset") for name in operands)],
            (total * plans[0].group,),
            (plans[0].group,),
            kept={name: engine.bring(table) for name, table in parts.items()},
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
        *others, at = offsets
        if not self._scaled:
            if scalars != (1.0,):
                raise ValueError(f"the scale is {scalars}; this plan was made without one")
            scalars = ()
        places = (*scalars, *others, at - self._shift)
        if self._counters:
            buffers = (*buffers, state.fold_space(self._counters, 0)[0])
        return self._launch(state, buffers, places, wait_for)


def _given(run: Pass, plan: GroupPlan, rank: int) -> tuple[dict[str, Table], dict[str, int]]:
    """The tables and the numbers that a kernel is given of a pass."""
    tables = {"roots": _stage_roots(plan)}
    constants = {
        "lanes": run.lanes,
        **side_arguments("x", run.source, rank),
        **side_arguments("y", run.target, rank),
        "y_first": run.target.first_row, "y_begin": run.target.begin,
        **times_arguments(run.target.times, rank),
        **{f"batch{d}_size": n for d, n in enumerate(filled(run.batch, rank, 1))},
    }  # fmt: skip
    if run.target.form == "split":
        tables["halves"] = roots(np.arange(run.n), 2 * run.n)
    if plan.chirp:
        constants["n"] = run.n
        tables["chirp"] = chirp(run.n, False, run.n)
        tables["filter"] = chirp_filter(run.n, False, plan.length).conj()
    if plan.cyclic:
        tables["powers"] = powers_of_generator(run.n).astype(np.uint32)
        tables["filter"] = rader_filter(run.n).conj()
    if run.whole:
        constants["shift"] = (run.whole.bit_length() + 1) // 2
        tables |= _roots_of_all(run.whole, constants["shift"])
    return tables, constants


def _stage_roots(plan: GroupPlan) -> Table:
    """Of stages but the first of a way: exp(-2 pi i k r / (N R)) for r = 1, 2, 4 ... and k < N."""
    found = [np.zeros(0, complex)]
    for stage in (*plan.stages[1:], *plan.back[1:]):
        powers = [1 << bit for bit in range((stage.radix - 1).bit_length())]
        found.append(
            roots(np.outer(powers, np.arange(stage.before)), stage.before * stage.radix).ravel()
        )
    return np.concatenate(found)


def _roots_of_all(whole: int, shift: int) -> dict[str, Table]:
    """Two tables whose products are all roots of one of order ``whole``."""
    coarse = np.arange((whole >> shift) + 1, dtype=np.int64) << shift
    return {"coarse": roots(coarse, whole), "fine": roots(np.arange(1 << shift), whole)}
