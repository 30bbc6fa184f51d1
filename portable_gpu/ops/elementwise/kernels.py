"""The kernels of expressions: merged axes, partition into groups, parameters and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from portable_gpu.codegen.axes import Axis, merged, parameters
from portable_gpu.codegen.functions import helper_texts
from portable_gpu.codegen.names import calls_others, inlined
from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.elementwise.policy import ElementwisePolicy
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.groups import lanes_of_rows
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import PolicyRow, TuningTable

_MAX_INT = (1 << 31) - 1
#: A work-item computes at most this many elements, because the kernel unrolls all of them.
_MAX_ELEMENTS = 32


@dataclass(frozen=True)
class TileFigures(Figures):
    """The threshold of the rule for tiles on a GPU.

    Attributes:
        resident_groups: Groups resident on a compute unit.  With fewer groups than that, fewer
            memory accesses are in flight, so tiles are smaller.
    """

    resident_groups: int


@dataclass(frozen=True)
class ElementwiseForm:
    """The form of a kernel: all that its text depends on, except the expression.

    Attributes:
        group_size: The number of work-items in a group.
        lanes: The number of work-items along the inner axis.
        vector: The number of elements of a vector along the inner axis.
        across: The number of vectors that a work-item computes along the inner axis.
        down: The number of rows that a work-item computes.
        steps: The stride of each input and of the output along the inner axis: 0, 1, or 2 for
            any other stride.
        outer: The number of axes without the inner one.
        wide: Whether indices need 64 bits.
    """

    group_size: int
    lanes: int
    vector: int
    across: int
    down: int
    steps: tuple[int, ...]
    outer: int
    wide: bool


@dataclass(frozen=True)
class ElementwiseKernel:
    """A kernel for one expression, and the partition of its work; it needs no device.

    Attributes:
        axes: The merged axes, in the order of the output's strides; the last has the smallest.
        row: The policy, and where it came from.
        form: The form of the kernel.
        groups: The number of work-groups.
        parts: The number of groups that share a row.
        rows_each, columns_each: The largest number of rows and columns of a group.
    """

    axes: tuple[Axis, ...]
    row: PolicyRow[ElementwisePolicy]
    form: ElementwiseForm
    groups: int
    parts: int
    rows_each: int
    columns_each: int

    @property
    def rows(self) -> int:
        """The number of rows: the product of the sizes of all axes but the inner one."""
        return prod(axis.size for axis in self.axes[:-1])


def kernel_of(problem: ElementwiseProblem, target: Target, table: TuningTable) -> ElementwiseKernel:
    """Merge the axes, and choose the policy, the form and the partition."""
    unmerged = [
        Axis(size, tuple(strides[k] for strides in problem.strides))
        for k, size in enumerate(problem.shape)
    ]
    unmerged.sort(key=lambda axis: -abs(axis.strides[-1]))
    axes = tuple(merged(unmerged)) or (Axis(1, (1,) * len(problem.strides)),)
    row = table.choose("elementwise", ElementwisePolicy, target, problem.result)
    return (_runs if target.is_cpu else _tiles)(row, target, problem, axes)


def _steps(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    return tuple(step if step in (0, 1) else 2 for step in axes[-1].strides)


def _runs(
    row: PolicyRow[ElementwisePolicy],
    target: Target,
    problem: ElementwiseProblem,
    axes: tuple[Axis, ...],
) -> ElementwiseKernel:
    """Return the kernel of a CPU: a group is one work-item, with whole rows or a part of a row."""
    policy = row.policy
    columns, rows = max(1, axes[-1].size), max(1, prod(axis.size for axis in axes[:-1]))
    function = problem.function(target)
    # The compiler turns loops of integers into vectors of the width in which they are stored.  PoCL
    # 3.0 crashes when it compiles vectors of 16 integers of 8 bytes.
    elements = (*problem.inputs, problem.compute, problem.result)
    is_wide = function.kind is not None and not calls_others(problem.expression)
    vector_bytes = min(64, target.vector_bytes) if is_wide else policy.vector_bytes
    vector = max(1, vector_bytes // max(4, *(e.itemsize for e in elements)))
    plain = not problem.compute.floating or problem.complex
    if not problem.updated:  # then the last vector of a row overlaps the one before it
        vector = min(vector, floor_power_of_two(columns))
    if plain or vector == 1 or function.vectors(vector) is None:
        vector = 1
    max_groups = target.compute_units * policy.groups_per_unit
    groups_requested = max(1, min(max_groups, problem.nbytes // policy.work_per_group))
    groups_requested = 1 if target.compute_units == 1 else groups_requested
    groups = min(rows, groups_requested)
    rows_per_group = -(-rows // groups)
    blocks = -(-rows // rows_per_group)
    run = -(-columns // max(1, groups_requested // blocks))
    run = min(columns, -(-run // _RUN) * _RUN)
    runs_per_row = -(-columns // run)
    form = ElementwiseForm(
        group_size=1, lanes=1, vector=vector, across=1, down=1, steps=_steps(axes),
        outer=len(axes) - 1, wide=True,
    )  # fmt: skip
    groups = blocks * runs_per_row
    return ElementwiseKernel(axes, row, form, groups, runs_per_row, rows_per_group, run)


#: The parts of a row are multiples of this many elements, so that they consist of whole vectors
#: and whole cache lines.
_RUN = 64


def _tiles(
    row: PolicyRow[ElementwisePolicy],
    target: Target,
    problem: ElementwiseProblem,
    axes: tuple[Axis, ...],
) -> ElementwiseKernel:
    """Return the kernel of a GPU: each group computes a tile of rows and columns."""
    policy = row.policy
    columns, rows = max(1, axes[-1].size), max(1, prod(axis.size for axis in axes[:-1]))
    steps, size = _steps(axes), policy.group_size
    elements = (*problem.inputs, problem.result)
    vector = 1
    if steps[-1] == 1 and not problem.complex:
        unit = [k for k, step in enumerate(steps) if step == 1]
        itemsize = max(elements[k].itemsize for k in unit)
        vector = max(1, min(16, policy.vector_bytes // itemsize))
        while vector > 1 and (
            vector > columns
            or problem.alignment < vector * itemsize
            or any(axis.strides[k] % vector for axis in axes[:-1] for k in unit)
        ):
            vector //= 2
    vectors = -(-columns // vector)
    lanes = lanes_of_rows(vectors, rows, size, target.subgroup_size)
    unroll = max(1, min(policy.unroll, _MAX_ELEMENTS // vector))
    resident = TileFigures.of("elementwise", target).resident_groups * target.compute_units
    while unroll > 1 and rows * vectors < resident * size * unroll:
        unroll //= 2  # smaller tiles give more groups
    across = max(
        (1 << k for k in range(unroll.bit_length())),
        key=lambda x: (-(-(-vectors // (lanes * x)) * x), x),
    )
    if rows == 1:
        across = max(across, min(unroll, ceil_power_of_two(-(-vectors // lanes))))
    down = min(unroll // across, ceil_power_of_two(-(-rows * lanes // size)))
    tile_rows, tile_columns = size // lanes * down, lanes * vector * across
    parts = -(-columns // tile_columns)
    blocks = -(-rows // tile_rows)
    largest_index = max(
        sum(abs(axis.strides[k]) * (axis.size - 1) for axis in axes[:-1])
        + abs(axes[-1].strides[k]) * parts * tile_columns
        for k in range(len(steps))
    )
    wide = max(largest_index, blocks * parts, blocks * tile_rows, parts * tile_columns) > _MAX_INT
    form = ElementwiseForm(
        group_size=size, lanes=lanes, vector=vector, across=across, down=down, steps=steps,
        outer=len(axes) - 1, wide=wide,
    )  # fmt: skip
    return ElementwiseKernel(axes, row, form, blocks * parts, parts, tile_rows, tile_columns)


def _inlined(problem: ElementwiseProblem, target: Target) -> list[str]:
    """The functions of the expression that a CPU's kernel defines; none of text that is only C."""
    if problem.function(target).kind is None:
        return []
    return inlined(problem.expression, problem.ctype)


def render(
    problem: ElementwiseProblem, target: Target, kernel: ElementwiseKernel
) -> Specialization:
    """The OpenCL text of a problem's kernel."""
    arrays = [f"a{k}" for k in range(len(problem.inputs))]
    form, function = kernel.form, problem.function(target)
    index = "long" if form.wide else "int"
    on_cpu = {"inlined": _inlined(problem, target)} if target.is_cpu else {}
    return specialize(
        f"elementwise/{'runs' if target.is_cpu else 'tiles'}",
        target,
        {"elementwise": _parameters(problem, form, arrays, index)},
        f=function,
        helpers=helper_texts(function.helpers(form.vector)),
        inputs=dict(zip(arrays, problem.inputs, strict=True)),
        updated=len(problem.updated),
        numbers=problem.numbers,
        result=problem.result,
        steps=dict(zip((*arrays, "out"), form.steps, strict=True)),
        outer=form.outer,
        V=form.vector,
        G=form.group_size,
        LX=form.lanes,
        X=form.across,
        Y=form.down,
        index=index,
        **on_cpu,
    )


def _parameters(
    problem: ElementwiseProblem, form: ElementwiseForm, arrays: Sequence[str], index: str
) -> list[Parameter]:
    """The kernel's parameters: arrays, numbers, the partition, extents and strides.

    Args:
        problem, form: The problem, and the form of its kernel.
        arrays: The names of the input arrays.
        index: The C type of extents and strides.
    """
    names = [*arrays, "out"]
    result = []
    for name, elem in zip(names, (*problem.inputs, problem.result), strict=True):
        result += [buffer(f"{elem.name}_t", f"{name}_data", writes=name == "out")]
        result += scalars("long", f"{name}_offset")
    return [
        *result,
        *scalars(problem.real, *problem.parts),
        *scalars(index, "parts", "rows_each", "columns_each", "rows", "columns"),
        *parameters("outer", form.outer, names, index),
        *scalars(index, *(f"{name}_stride" for name in names)),
    ]
