"""Gradients of normalisation over groups of channels on GPUs, in one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.codegen.parameters import Parameter, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.normalize.kernels import aligned_vector
from portable_gpu.ops.normalize.policy import RowsPolicy
from portable_gpu.ops.normalize.problem import RowProblem
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.powers_of_two import ceil_power_of_two
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

#: Work-items of a group, and of one whose elements have 16 bits; vectors of each operand that a
#: work-item has in flight (docs/performance.md: other sizes take up to 1.7 times as long).
_GROUP, _SHORT_GROUP, _IN_FLIGHT = 1024, 512, 4
#: Accumulators of a group in local memory, at most.
_SLOTS = 1024
#: Work-groups for each compute unit, at least.
_GROUPS_PER_UNIT = 2


@dataclass(frozen=True)
class ChannelsKernel:
    """The kernel of a problem whose rows are groups of channels.

    Attributes:
        problem: The problem: sums over the places of a channel, and the gradient of the input.
        vector: Elements of a vector.
        group, lanes, subgroup: Work-items of a group, of a channel, and of a sub-group.
        turns: The channels that a work-item folds.
    """

    problem: RowProblem
    vector: int
    group: int
    lanes: int
    subgroup: int
    turns: int

    @property
    def channels(self) -> int:
        """The channels of a group."""
        return self.problem.outer[0].size if self.problem.outer else 1

    def specialization(self, target: Target) -> Specialization:
        """The OpenCL text."""
        problem, p = self.problem, self.problem.program
        (phase,) = p.phases
        return specialize(
            "normalize/channels",
            target,
            {"normalize_channels": self._parameters()},
            p=p,
            elems=dict(zip(p.operands, problem.elems, strict=True)),
            written=tuple(name for name, _ in p.outputs),
            acc=phase.accumulator("acc_t", problem.real),
            real=problem.real,
            kept=len(problem.kept),
            outer=len(problem.outer),
            G=self.group,
            L=self.lanes,
            S=self.subgroup,
            T=self.turns,
            V=self.vector,
            U=_IN_FLIGHT,
        )

    def _parameters(self) -> list[Parameter]:
        problem, p = self.problem, self.problem.program
        result = problem.operand_parameters()
        for k in range(len(problem.outer)):
            result += scalars("long", *(f"{name}_outer{k}" for name in p.element_names))
        return [*result, *scalars("uint", "n", "channels"), *scalars(problem.real, "count")]

    def constants(self) -> dict[str, int]:
        """The scalars of every launch."""
        problem, p = self.problem, self.problem.program
        result = {
            "n": problem.inner.size, "channels": self.channels, "count": problem.count,
            **problem.row_constants(),
        }  # fmt: skip
        for k, axis in enumerate(problem.outer):
            steps = zip(p.element_names, axis.strides, strict=True)
            result |= {f"{name}_outer{k}": step for name, step in steps}
        return result


def channels_plan(engine: Engine, kernel: ChannelsKernel) -> OneLaunch:
    """Return the plan of a problem whose rows are groups of channels."""
    problem, names = kernel.problem, kernel.problem.program.operands
    return OneLaunch(
        engine, kernel.specialization(engine.target), "normalize_channels", kernel.constants(),
        [f"{name}_data" for name in names], (problem.rows * kernel.group,), (kernel.group,),
        offsets=[f"{name}_offset" for name in names],
        flop=8 * problem.rows * problem.count, nbytes=problem.bytes,
    )  # fmt: skip


def channels_kernel(
    problem: RowProblem, target: Target, table: TuningTable
) -> ChannelsKernel | None:
    """Return the kernel of a problem, or ``None`` where other kernels are better.

    Other kernels are better on CPUs, if the gradient of the input alone is requested for 16-bit
    floats, for channels whose elements are not contiguous, for few groups, and for groups whose
    sums exceed local memory.
    """
    p = problem.program
    if target.is_cpu or len(problem.outer) > 1 or "rms" in problem.flags:
        return None
    along = dict(zip(p.element_names, problem.inner.strides, strict=True))
    if any(step != (name in ("dy", "x", "dx")) for name, step in along.items()):
        return None
    if problem.elems[0].itemsize <= 2 and not p.sums:
        return None
    if problem.rows < _GROUPS_PER_UNIT * target.compute_units:
        return None
    policy = table.choose("normalize", RowsPolicy, target, problem.elems[0]).policy
    vector = aligned_vector(problem, policy, ("dy", "x", "dx"))
    is_short = problem.elems[0].itemsize <= 2
    group = min(_SHORT_GROUP if is_short else _GROUP, target.max_work_group_size)
    subgroup = min(target.subgroup_size, group)
    channels = problem.outer[0].size if problem.outer else 1
    while group >= subgroup:
        side_by_side = min(ceil_power_of_two(channels), group // subgroup)
        turns, lanes = -(-channels // side_by_side), group // side_by_side
        slots = turns * group // subgroup
        # A sub-group may exchange accumulators in local memory, one of each work-item.
        nbytes = (slots + group) * p.accumulator_bytes(problem.real)
        if slots <= _SLOTS and nbytes <= target.local_mem_size:
            return ChannelsKernel(problem, vector, group, lanes, subgroup, turns)
        group //= 2
    return None
