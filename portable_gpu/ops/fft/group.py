"""Passes on a GPU: the registers of a work-group hold one transform or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.fft.grouping import (
    group_shapes,
    groups,
    is_fused_by_group,
    uses_half_the_registers,
)
from portable_gpu.ops.fft.joined import pipeline_depth
from portable_gpu.ops.fft.memory import (
    filled,
    rank_of,
    side_arguments,
    side_names,
    times_arguments,
)
from portable_gpu.ops.fft.passes import Pass, PassOperand, RenderedOperand, moved
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.shape import GroupShape
from portable_gpu.ops.fft.tables import (
    Table,
    as_components,
    chirp,
    chirp_filter,
    powers_of_generator,
    rader_filter,
    roots,
)
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

# The constants were measured: see docs/experiments/fft.md, "Constants".
#: Groups of a compute unit up to which stage roots are read early also in the first of two passes,
#: whose twiddle factors take registers too.
_FEW_GROUPS = 2
#: Larger groups do not have the registers to load all numbers at once.
_SMALL_GROUP = 256
#: The longest columns whose twiddle factors between two passes are staged in local memory.
_MAX_STAGED_TWIDDLES = 256
#: Bytes of local memory for the barrier and the queue of prefetched lines.
_PREFETCH_BYTES = 256


@dataclass(frozen=True)
class _PassText:
    """The properties of a pass for which the text is rendered; see ``cl_kernels/fft/group``."""

    tag: str
    between: str
    plan: GroupShape
    early: bool
    source: RenderedOperand
    result: RenderedOperand
    planes: int
    all_in: bool
    all_out: bool
    twisted: bool
    twists: int
    by_batch: bool
    scaled: bool
    unconditional: bool
    ahead: bool

    def parameters(self, rank: int) -> list[Parameter]:
        """The kernel parameters of the pass, by the names that its text has for them."""
        batch = [f"batch{d}" for d in range(rank)]
        result = [_roots("roots"), *scalars("long", "lanes")]
        if self.plan.chirp:
            result += [*scalars("uint", "n"), _roots("chirp"), _roots("filter")]
        if self.plan.cyclic:
            result += [buffer("uint", "powers", restrict=False), _roots("filter")]
        if self.result.form == "split":
            result += [_roots("halves")]
        if self.twisted:
            result += [_roots("coarse"), _roots("fine"), *scalars("int", "shift")]
        for name, side in (("x", self.source), ("y", self.result)):
            if name not in self.between:
                result += [buffer("real_t", f"{name}_data", writes=name == "y", restrict=False)]
                result += scalars("long", f"{name}_offset")
            result += scalars("long", *side_names(name), *(f"{name}_{axis}" for axis in batch))
            result += scalars("long", f"{name}_limit_batch") * side.stepped
            result += [_roots(f"{name}_factor")] * bool(side.factor)
        result += scalars("long", "y_first", "y_begin")
        if self.result.times:
            result += [buffer("pair_in_memory_t", "t_data", restrict=False)]
            result += [*scalars("long", "t_offset", "t_row", "t_lane")]
            result += [*scalars("int", "t_conjugate")]
            result += scalars("long", *(f"t_{axis}" for axis in batch))
        return result + scalars("uint", *(f"{axis}_size" for axis in batch))


def _roots(name: str) -> Parameter:
    return buffer("pair_t", name, restrict=False)


def specialization(
    passes: Sequence[Pass], policy: GroupFftPolicy, target: Target
) -> Specialization:
    """Render the kernel of a pass, or of two that share a launch."""
    plans = group_shapes(passes, policy, target)
    tags = ("0", "1") if len(passes) == 2 else ("",)
    rendered = [
        _PassText(
            tag=tag,
            between=between if len(passes) == 2 else "",
            plan=plan,
            early=_reads_roots_early(pass_, plan, target),
            source=_side(pass_, pass_.source, plan.staged_source, plan),
            result=_side(pass_, pass_.target, plan.staged_target, plan),
            planes=pass_.planes,
            all_in=pass_.source.is_whole(pass_.n, pass_.lanes),
            all_out=pass_.target.is_whole(pass_.n, pass_.lanes),
            twisted=bool(pass_.twiddle_length),
            twists=plan.twiddles_in_local(pass_.target.form)
            if stages_twiddles_in_local_memory(pass_, plan, target)
            else 0,
            by_batch=pass_.by_batch,
            scaled=pass_.scaled,
            unconditional=_loads_unconditionally(pass_, plan),
            ahead=len(passes) == 1 and _prefetches_by_copy_engine(pass_, plan, target),
        )
        for pass_, plan, tag, between in zip(passes, plans, tags, "yx", strict=False)
    ]
    rank, real = max(map(rank_of, passes)), passes[0].real
    fused = is_fused_by_group(passes, plans)
    return specialize(
        "fft/group",
        target,
        {"fft": _parameters(rendered, real.real, rank, fused)},
        policy=policy,
        real=real,
        passes=rendered,
        inverse=passes[0].inverse,
        rank=rank,
        fused=fused,
    )


def _parameters(passes: Sequence[_PassText], real: str, rank: int, fused: bool) -> list[Parameter]:
    """The kernel's parameters: the scale, those of each pass, and those of two in one launch."""
    result = scalars(real, "scale", alias="real_t") * passes[-1].scaled
    for item in passes:
        result += [
            replace(parameter, name=parameter.name + item.tag)
            for parameter in item.parameters(rank)
        ]
    if len(passes) == 2:
        result += [buffer("real_t", "between_data", writes=True, restrict=False)]
        result += scalars("long", "between_offset")
    if len(passes) == 2 and not fused:
        result += [buffer("uint", "counters", writes=True, shared=True, restrict=False)]
        result += scalars("uint", "parts", "groups0", "groups1", "lag")
    return result + scalars("uint", "groups") * passes[0].ahead


def _side(pass_: Pass, rows: PassOperand, staged: bool, plan: GroupShape) -> RenderedOperand:
    """Return the rendered operand; staged lines without gaps are copied number by number."""
    dense = staged and not plan.chirp and rows.is_whole(pass_.n, pass_.lanes)
    return replace(rows.rendered, dense=rows.dense if dense else 0)


def stages_twiddles_in_local_memory(pass_: Pass, plan: GroupShape, target: Target) -> bool:
    """Whether twiddle factors between two passes are computed in local memory.

    They are if the target is staged, because a work-item's rows of a slot then have one distance.
    """
    local_bytes = (
        plan.local_numbers + 2 * plan.twiddles_in_local(pass_.target.form)
    ) * pass_.real.itemsize
    if not pass_.twiddle_length or local_bytes > target.static_local_mem:
        return False
    if pass_.by_batch or not plan.staged_target:
        return pass_.n <= _MAX_STAGED_TWIDDLES and not plan.staged_target
    return plan.target_across or plan.slots == 1


def _loads_unconditionally(pass_: Pass, plan: GroupShape) -> bool:
    """Whether loads have no condition, because drivers serialise conditional loads."""
    paired = pass_.planes > 1 and plan.slots > 1 and not plan.source_across
    small = plan.group <= _SMALL_GROUP and not (plan.staged_source or paired)
    return small and (pass_.source.form != "folded" or pass_.source.is_whole(pass_.n, pass_.lanes))


def _prefetches_by_copy_engine(pass_: Pass, plan: GroupShape, target: Target) -> bool:
    """Whether the copy engine (TMA) loads a group's next line while the group transforms one.

    That helps groups that fill a compute unit, where no other group computes during the load.
    """
    rows = pass_.source
    straight = rows.form == "complex" and rows.row == 1 and rows.is_whole(pass_.n, pass_.lanes)
    several = groups(pass_, plan) > target.compute_units and uses_half_the_registers(
        plan, pass_, target
    )
    local_bytes = (plan.local_numbers + 2 * pass_.n) * pass_.real.itemsize + _PREFETCH_BYTES
    return (
        target.matrix_units == "wgmma"  # devices with that engine
        and straight
        and several
        and plan.slots == 1
        and not (plan.back or plan.staged_source or rows.factor)
        and local_bytes <= target.static_local_mem
    )


def _reads_roots_early(pass_: Pass, plan: GroupShape, target: Target) -> bool:
    """Whether registers suffice to load the next stage's roots while numbers are exchanged."""
    words = 2 * plan.numbers_per_item * pass_.real.itemsize // 4
    few = groups(pass_, plan) <= _FEW_GROUPS * target.compute_units
    return 3 * words <= target.resident_registers and (few or not pass_.twiddle_length)


def group_pass_plan(
    engine: Engine,
    passes: Sequence[Pass],
    policy: GroupFftPolicy,
    factors: tuple[Table | None, Table | None] = (None, None),
) -> OneLaunch:
    """Return the plan of a pass by work-groups, or of two, of which parts of the second follow.

    Operands: the source; the array between the passes, if there are two; the array by which results
    are multiplied, if any; the target, which may be the source.  The scalar is the scale.

    Args:
        engine: The device.
        passes: One pass, or two of which the second reads the results of the first.
        policy: Their policy.
        factors: The tables by which the first source and the last target are multiplied.
    """
    first, last = passes[0], passes[-1]
    plans = group_shapes(passes, policy, engine.target)
    rank = max(map(rank_of, passes))
    tags = ("0", "1") if len(passes) == 2 else ("",)
    constants: dict[str, int] = {}
    tables: dict[str, Table] = {}
    for pass_, plan, tag in zip(passes, plans, tags, strict=True):
        own_tables, own_constants = _arguments(pass_, plan, rank)
        tables |= {f"{name}{tag}": table for name, table in own_tables.items()}
        constants |= {f"{name}{tag}": value for name, value in own_constants.items()}
    names = [f"x_data{tags[0]}", f"t_data{tags[-1]}", f"y_data{tags[-1]}"]
    for name, table in zip((f"x_factor{tags[0]}", f"y_factor{tags[-1]}"), factors, strict=True):
        if table is not None:
            tables[name] = table
    operands = names if last.target.times else [names[0], names[2]]
    if len(passes) == 2:
        operands.insert(1, "between_data")
    group_counts = [groups(pass_, plan) for pass_, plan in zip(passes, plans, strict=True)]
    counters = 0
    if is_fused_by_group(passes, plans):
        group_counts = group_counts[:1]
    elif len(passes) == 2:
        counters = 2 + first.parts
        constants |= {
            "parts": first.parts, "lag": pipeline_depth(first, engine.target),
            **{f"groups{k}": count // first.parts for k, count in enumerate(group_counts)},
        }  # fmt: skip
    total = sum(group_counts)
    if len(passes) == 1 and _prefetches_by_copy_engine(first, plans[0], engine.target):
        constants["groups"] = total
        total = min(total, engine.target.compute_units)
    parts = {
        name: table if table.dtype.kind == "u" else as_components(table, first.real.real)
        for name, table in tables.items()
    }
    return OneLaunch(
        engine, specialization(passes, policy, engine.target), "fft", constants, operands,
        (total * plans[0].group,), (plans[0].group,),
        offsets=[name.replace("data", "offset") for name in operands],
        starts=(*(0 for _ in operands[:-1]), -last.target.shift),
        scalars={"scale": 1.0} if last.scaled else {},
        convert=None if last.scaled else _without_scale, tables=parts, counters=counters,
        nbytes=moved(passes),
    )  # fmt: skip


def _without_scale(scalars: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return no scalars, after a check of the scale."""
    if scalars != (1.0,):
        raise ValueError(f"the scale is {scalars}; this plan was made without one")
    return ()


def _arguments(pass_: Pass, plan: GroupShape, rank: int) -> tuple[dict[str, Table], dict[str, int]]:
    """Return the tables and constants of a pass, by the names of the kernel's parameters."""
    tables = {"roots": _stage_roots(plan)}
    constants = {
        "lanes": pass_.lanes,
        **side_arguments("x", pass_.source, rank),
        **side_arguments("y", pass_.target, rank),
        "y_first": pass_.target.first_row, "y_begin": pass_.target.begin,
        **times_arguments(pass_.target.times, rank),
        **{f"batch{d}_size": n for d, n in enumerate(filled(pass_.batch, rank, 1))},
    }  # fmt: skip
    if pass_.target.form == "split":
        tables["halves"] = roots(np.arange(pass_.n), 2 * pass_.n)
    if plan.chirp:
        constants["n"] = pass_.n
        tables["chirp"] = chirp(pass_.n, False, pass_.n)
        tables["filter"] = chirp_filter(pass_.n, False, plan.length).conj()
    if plan.cyclic:
        tables["powers"] = powers_of_generator(pass_.n).astype(np.uint32)
        tables["filter"] = rader_filter(pass_.n).conj()
    if pass_.twiddle_length:
        constants["shift"] = (pass_.twiddle_length.bit_length() + 1) // 2
        tables |= _roots_of_all(pass_.twiddle_length, constants["shift"])
    return tables, constants


def _stage_roots(plan: GroupShape) -> Table:
    """Return the roots of later stages: exp(-2 pi i k r / (N R)) for r = 1, 2, 4 ... and k < N."""
    tables = [np.zeros(0, complex)]
    for stage in (*plan.stages[1:], *plan.back[1:]):
        powers = [1 << bit for bit in range((stage.radix - 1).bit_length())]
        tables.append(
            roots(np.outer(powers, np.arange(stage.before)), stage.before * stage.radix).ravel()
        )
    return np.concatenate(tables)


def _roots_of_all(length: int, shift: int) -> dict[str, Table]:
    """Return two tables whose products are all roots of unity of order ``length``."""
    coarse = np.arange((length >> shift) + 1, dtype=np.int64) << shift
    return {"coarse": roots(coarse, length), "fine": roots(np.arange(1 << shift), length)}
