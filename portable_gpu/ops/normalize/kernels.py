"""The kernels of rows: their forms, and the partition of the rows over work-groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.normalize.policy import RowsPolicy
from portable_gpu.ops.normalize.problem import RowProblem
from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow, TuningTable

_MOST_PARTS = 256
#: Work-items of a compute unit whose groups keep sums over rows: their registers allow no more.
_SUMMING = 1024
_REGISTERS = 65536


@dataclass(frozen=True)
class RowsKernel:
    """The kernels of one problem, and their partition.

    Attributes:
        problem: The problem; on a CPU, along a row of any stride, its axes are as they are.
        row: The policy from which the numbers follow, and its origin.
        vector: Elements of a vector; on a CPU across rows, rows of a block.
        group, lanes: Work-items of a group, and of a row.
        across: Whether neighbours have neighbouring rows, not neighbouring elements.
        keeps: Vectors that a work-item keeps in registers; on a CPU, whether the caches keep a row.
            0: the row is read for the statistic and again for the map.
        parts, span: The groups of a row, and their elements.
        rows_each: Rows, or blocks of them, of a group of a CPU.
        groups: Groups of all parts.
    """

    problem: RowProblem
    row: PolicyRow[RowsPolicy]
    vector: int
    group: int
    lanes: int
    across: bool
    keeps: int
    parts: int
    span: int
    rows_each: int
    groups: int

    @property
    def workspace_bytes(self) -> int:
        """The statistics of parts."""
        stream = self.problem.program.stream
        if self.parts == 1 or stream is None:
            return 0
        size = len(stream.fields) * SCALAR_BYTES[self.problem.real]
        return self.problem.rows * self.parts * size

    @property
    def kernel_parts(self) -> tuple[str, ...]:
        """The kernels that are launched, one after the other."""
        return ("fold", "map") if self.parts > 1 else ("whole",)

    def entry(self, target: Target) -> str:
        """The name of the kernel."""
        return "normalize_cpu_rows" if target.is_cpu else "normalize_rows"

    def specialization(self, target: Target, launch: str) -> Specialization:
        """The text and options of one of the kernels."""
        problem, p = self.problem, self.problem.program
        phases = p.phases if self.keeps else (p.stream,) * (p.stream is not None)
        context: dict[str, Any] = {
            "p": p,
            "elems": dict(zip(p.operands, problem.elems, strict=True)),
            "real": problem.real,
            "V": self.vector,
            "U": self.row.policy.unroll,
            "phases": phases,
            "launch": launch,
            "across": self.across,
            "spread": tuple(self._spread()),
            "kept": len(problem.kept),
            "outer": len(problem.outer),
        }
        if target.is_cpu:
            context["inlined"] = p.calls("exp", "fmax")
        else:
            context |= {
                "G": self.group,
                "L": self.lanes,
                "S": target.subgroup_size,
                "E": self.keeps,
                "steady": tuple(self._steady()),
            }
        kernels = {self.entry(target): self._parameters(launch)}
        name = "cpu_rows" if target.is_cpu else "rows"
        spec = specialize(f"normalize/{name}", target, kernels, **context)
        if not p.sums or problem.real != "float" or self.group * 2 > _SUMMING:
            return spec
        # So that all work-items of _SUMMING run at the same time, at the cost of a few spills.
        limit = target.register_limit(_REGISTERS // _SUMMING)
        return replace(spec, options=(*spec.options, *limit))

    def _parameters(self, launch: str) -> list[Parameter]:
        """The kernel's parameters: operands, workspace, axes, numbers, the partition."""
        problem, p = self.problem, self.problem.program
        written = dict((*p.outputs, *p.row_outputs))
        result = []
        for name, elem in zip(p.operands, problem.elems, strict=True):
            result += [buffer(f"{elem.name}_t", f"{name}_data", writes=name in written)]
            result += scalars("long", f"{name}_offset")
        if launch != "whole":
            result.append(buffer(problem.real, "partial", writes=True))
        axes = [
            ("kept", len(problem.kept), p.operands),
            ("outer", len(problem.outer), p.element_names),
        ]
        for kind, count, names in axes:
            for k in range(count):
                result += scalars("uint", f"{kind}{k}_size")
                result += scalars("long", *(f"{name}_{kind}{k}" for name in names))
        result += scalars("long", *(f"{name}_stride" for name in p.element_names))
        result += [*scalars(problem.real, *p.scalars, *p.varying), *scalars("long", *p.integers)]
        return result + scalars("uint", "rows", "rows_each", "n", "count", "parts", "span")

    def constants(self) -> dict[str, Any]:
        """The scalars that stay: see ``cl_kernels/normalize/_program.cl.mako``."""
        problem, p = self.problem, self.problem.program
        result: dict[str, Any] = {
            "rows": problem.rows,
            "rows_each": self.rows_each,
            "n": max(1, problem.inner.size),
            "count": problem.count,
            "parts": self.parts,
            "span": self.span,
        }
        result |= dict(zip((*p.scalars, *p.integers), problem.scalars, strict=True))
        for kind, axes, names in (
            ("kept", problem.kept, p.operands),
            ("outer", problem.outer, p.element_names),
        ):
            for k, axis in enumerate(axes):
                result[f"{kind}{k}_size"] = max(1, axis.size)
                steps = zip(names, axis.strides, strict=True)
                result |= {f"{name}_{kind}{k}": step for name, step in steps}
        steps = zip(p.element_names, problem.inner.strides, strict=True)
        return result | {f"{name}_stride": step for name, step in steps}

    def _spread(self) -> Iterator[str]:
        """The inputs that are one element for a whole vector."""
        p = self.problem
        for k, name in enumerate(p.program.element_names):
            if self.across:
                step = p.kept[-1].strides[p.program.operands.index(name)]
            else:
                step = p.inner.strides[k]
            if self.vector > 1 and step == 0:
                yield name

    def _steady(self) -> Iterator[str]:
        """The inputs that are kept while sums over rows are made: those that all rows share."""
        p = self.problem
        for name in p.program.early if p.program.sums else ():
            place = p.program.operands.index(name)
            if not any(axis.strides[place] for axis in p.kept):
                yield name


def kernel_of(problem: RowProblem, target: Target, table: TuningTable) -> RowsKernel:
    """Return the kernels of a problem with elements."""
    row = table.choose("normalize", RowsPolicy, target, problem.elems[0])
    if target.is_cpu:
        return _on_cpu(problem, target, row)
    return _on_gpu(problem, target, row)


def _is_across(problem: RowProblem) -> bool:
    """Whether neighbouring elements are of neighbouring rows."""
    inner, kept = problem.inner.strides[0], problem.kept[-1]
    if problem.count == 1:
        return kept.strides[0] == 1 and kept.size > 1
    return abs(inner) != 1 and abs(kept.strides[0]) < abs(inner) and kept.size > 1


def _takes_vectors(axis: Axis, operands: range) -> bool:
    """Whether the operands are contiguous along an axis, or one element."""
    return all(axis.strides[k] in (0, 1) for k in operands) and axis.strides[0] == 1


def _on_cpu(problem: RowProblem, target: Target, row: PolicyRow[RowsPolicy]) -> RowsKernel:
    p, policy, units = problem.program, row.policy, target.compute_units
    across = _is_across(problem)
    if across:
        elements = [p.operands.index(name) for name in p.element_names]
        steps = [problem.kept[-1].strides[k] for k in elements]
        regular = all(step in (0, 1) for step in steps) and steps[0] == 1
        vector = policy.vector if regular and problem.kept[-1].size >= policy.vector else 1
    else:
        regular = _takes_vectors(problem.inner, range(len(p.element_names)))
        vector = floor_power_of_two(min(policy.vector, problem.inner.size)) if regular else 1
    results = [problem.inner.strides[p.element_names.index(name)] for name, _ in p.outputs]
    if not across and vector > 1 and 0 in results:
        vector = 1
    blocks = problem.rows
    if across and vector > 1:
        columns = problem.kept[-1].size
        blocks = problem.rows // columns * -(-columns // vector)
    nbytes = problem.count * sum(e.itemsize for e in problem.elems[: len(p.inputs)])
    nbytes *= vector if across else 1
    keeps = int(nbytes <= policy.cached_bytes or p.stream is None)
    parts, span = 1, problem.count
    target_groups = policy.groups_per_unit * units
    if p.stream is not None and 2 * blocks <= units and nbytes >= 2 * policy.grain:
        parts = min(_MOST_PARTS, target_groups // blocks, nbytes // policy.grain)
        span = -(-problem.count // parts)
        span = -(-span // vector) * vector
        parts = -(-problem.count // span)
    if parts > 1:
        keeps = 0
    groups = max(1, min(blocks, target_groups, -(-blocks * nbytes // policy.grain)))
    rows_each = -(-blocks // groups)
    groups = -(-blocks // rows_each)
    return RowsKernel(
        problem=problem, row=row, vector=vector, group=1, lanes=1, across=across, keeps=keeps,
        parts=parts, span=span, rows_each=rows_each, groups=groups * parts,
    )  # fmt: skip


def _on_gpu(problem: RowProblem, target: Target, row: PolicyRow[RowsPolicy]) -> RowsKernel:
    p, policy, units = problem.program, row.policy, target.compute_units
    across, count = _is_across(problem), problem.count
    vector = 1 if across else _aligned_vector(problem, policy)
    keep = max(1, policy.kept // (vector * max(1, len(p.early))))
    # A sub-group may exchange accumulators in local memory, one of each work-item; then come half
    # as many, at most.
    item_bytes = 3 * max(1, p.accumulator_bytes(problem.real)) / 2
    max_items = floor_power_of_two(int(target.local_mem_size / item_bytes))
    max_size = min(policy.long_group_size, target.max_work_group_size, max_items)
    small = min(policy.group_size, max_size)
    if across:
        lanes = max(1, small // max(1, policy.side_by_side))
        while lanes > 1 and lanes > count:
            lanes //= 2
        group = small
        keeps = keep if count <= lanes * keep else 0
    else:
        wave = min(target.subgroup_size, small)
        choices = [(small, max(1, wave // 8)), (small, wave), (small, small), (max_size, max_size)]
        group, lanes = next(
            ((g, n) for g, n in choices if count <= n * keep * vector), (max_size, max_size)
        )
        keeps = keep if count <= lanes * keep * vector else 0
    if p.stream is None:
        keeps = max(keeps, 0)
    if keeps and p.sums:
        keeps = -(-count // (lanes * vector))
    tiles = -(-problem.rows // (group // lanes))
    parts, span = 1, count
    if p.stream is not None and not keeps and tiles < 2 * units:
        step = lanes * vector * policy.unroll
        target_groups = -(-policy.groups_per_unit * units // tiles)
        parts = max(1, min(_MOST_PARTS, target_groups, count // (2 * step)))
        span = -(-count // parts)
        span = -(-span // vector) * vector
        parts = -(-count // span)
    if p.sums:  # groups that run at the same time, each with many rows
        tiles = min(tiles, units * max(1, _SUMMING // group))
    return RowsKernel(
        problem=problem, row=row, vector=vector, group=group, lanes=lanes, across=across,
        keeps=keeps, parts=parts, span=span, rows_each=1, groups=tiles * parts,
    )  # fmt: skip


def _aligned_vector(problem: RowProblem, policy: RowsPolicy) -> int:
    p = problem.program
    results = [problem.inner.strides[p.element_names.index(name)] for name, _ in p.outputs]
    if 0 in results or not _takes_vectors(problem.inner, range(len(p.element_names))):
        return 1
    steps = zip(p.element_names, problem.inner.strides, strict=True)
    return aligned_vector(problem, policy, [name for name, step in steps if step])


def aligned_vector(problem: RowProblem, policy: RowsPolicy, names: Sequence[str]) -> int:
    """The elements of a load for which every row is aligned: those of 16 bytes, or one.

    Args:
        problem, policy: The problem and its policy.
        names: The operands that are contiguous along the inner axis.
    """
    p = problem.program
    vector = max(1, policy.load_bytes // problem.elems[0].itemsize)
    if problem.inner.size % vector:
        return 1
    for name in names:
        operand, k = p.operands.index(name), p.element_names.index(name)
        if problem.alignment % (vector * problem.elems[operand].itemsize):
            return 1
        steps = [axis.strides[operand] for axis in problem.kept]
        steps += [axis.strides[k] for axis in problem.outer]
        if any(step % vector for step in steps):
            return 1
    return vector


def without_parts(kernel: RowsKernel) -> RowsKernel:
    """Return these kernels with one group for each row."""
    groups = kernel.groups // kernel.parts
    return replace(kernel, parts=1, span=kernel.problem.count, groups=groups)
