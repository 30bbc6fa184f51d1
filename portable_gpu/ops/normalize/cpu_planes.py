"""Gradients of normalisation over groups of channels that are planes in memory, on CPUs."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.codegen.parameters import Parameter, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.normalize.policy import RowsPolicy
from portable_gpu.ops.normalize.problem import RowProblem
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


@dataclass(frozen=True)
class CpuPlanesKernel:
    """The kernel of a problem whose rows are groups of channels, each contiguous in memory.

    Attributes:
        problem: The problem: sums over the places of a channel, and the gradient of the input.
        vector: Elements of a vector.
        unroll: Vectors of a step.
        rows_each: The rows of a group.
    """

    problem: RowProblem
    vector: int
    unroll: int
    rows_each: int

    def specialization(self, target: Target) -> Specialization:
        """The OpenCL text."""
        problem, p = self.problem, self.problem.program
        return specialize(
            "normalize/cpu_planes",
            target,
            {"normalize_cpu_planes": self._parameters()},
            operands=p.operands,
            elems=dict(zip(p.operands, problem.elems, strict=True)),
            written=tuple(name for name, _ in p.outputs),
            real=problem.real,
            kept=len(problem.kept),
            V=self.vector,
            U=self.unroll,
        )

    def _parameters(self) -> list[Parameter]:
        problem, p = self.problem, self.problem.program
        result = problem.operand_parameters()
        result += scalars("long", *(f"{name}_channel" for name in p.element_names))
        result += scalars("uint", "rows", "rows_each", "channels", "places")
        return [*result, *scalars(problem.real, "count")]

    def constants(self) -> dict[str, int]:
        """The scalars of every launch."""
        problem, p = self.problem, self.problem.program
        (channels,) = problem.outer
        result = {
            "rows": problem.rows,
            "rows_each": self.rows_each,
            "channels": channels.size,
            "places": problem.inner.size,
            "count": problem.count,
            **problem.row_constants(),
        }
        steps = zip(p.element_names, channels.strides, strict=True)
        return result | {f"{name}_channel": step for name, step in steps}


def cpu_planes_plan(engine: Engine, kernel: CpuPlanesKernel) -> OneLaunch:
    """Return the plan of a problem whose rows are groups of channels."""
    problem, names = kernel.problem, kernel.problem.program.operands
    return OneLaunch(
        engine, kernel.specialization(engine.target), "normalize_cpu_planes", kernel.constants(),
        [f"{name}_data" for name in names], (-(-problem.rows // kernel.rows_each),), (1,),
        offsets=[f"{name}_offset" for name in names],
        flop=8 * problem.rows * problem.count, nbytes=problem.bytes,
    )  # fmt: skip


def cpu_planes_kernel(
    problem: RowProblem, target: Target, table: TuningTable
) -> CpuPlanesKernel | None:
    """Return the kernel of a problem, or ``None`` where other kernels are better.

    Other kernels are better on GPUs, if the gradient of the input alone is requested, for channels
    whose elements are not contiguous, and for rows of up to half the number of compute units, each
    of which several work-groups share.
    """
    p = problem.program
    if not target.is_cpu or not p.sums or len(problem.outer) != 1:
        return None
    along = dict(zip(p.element_names, problem.inner.strides, strict=True))
    if any(step != (name in ("dy", "x", "dx")) for name, step in along.items()):
        return None
    across = dict(zip(p.element_names, problem.outer[0].strides, strict=True))
    if not all(across[name] for name in p.sums):  # an axis of places of a single channel
        return None
    if 2 * problem.rows <= target.compute_units:
        return None
    policy = table.choose("normalize", RowsPolicy, target, problem.elems[0]).policy
    max_groups = policy.groups_per_unit * target.compute_units
    groups = max(1, min(problem.rows, max_groups, problem.bytes // policy.grain))
    vector = floor_power_of_two(min(policy.vector, problem.inner.size))
    return CpuPlanesKernel(problem, vector, policy.unroll, -(-problem.rows // groups))
