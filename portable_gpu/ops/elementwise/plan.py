"""Elementwise plans: the axes of all arrays, the kernel, and the partition of its work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import pyopencl as cl

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.codegen.functions import Function, helper_texts
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.elementwise.numbers import Packing
from portable_gpu.ops.elementwise.policy import ElementwisePolicy
from portable_gpu.powers_of_two import ceil_power_of_two
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow, TuningTable

_MOST_INT = (1 << 31) - 1
#: C's types of parameters for numbers of narrow types.
_PASSED = {"char": "int", "short": "int", "uchar": "uint", "ushort": "uint"}
#: Elements of a work-item at most: their text is written out.
_MOST_ELEMENTS = 32
#: Groups that a compute unit of a GPU has at a time: with fewer, each has less in flight.
_FULL = 8


@dataclass(frozen=True)
class Problem:
    """One elementwise call apart from the arrays' and the scalars' values: the key of its plan.

    Attributes:
        expression: As users write it.
        names: What it calls the input arrays, in the order of their buffers.
        inputs: Their elements.
        updated: Names of inputs that are the output itself.
        scalars: Names of the inputs that are numbers.
        compute: Element that the expression is computed in.
        result: Element of the output.
        shape: Of the output.
        strides: Of each input array and of the output, in elements; 0 along what is broadcast.
        alignment: A power of two that divides each array's first address.
    """

    expression: str
    names: tuple[str, ...]
    inputs: tuple[Element, ...]
    updated: tuple[str, ...]
    scalars: tuple[str, ...]
    compute: Element
    result: Element
    shape: Shape
    strides: tuple[Shape, ...]
    alignment: int

    @property
    def ctype(self) -> str:
        """The C type computed in; of bool, ``int``."""
        return "int" if self.compute.boolean else self.compute.value

    @property
    def real(self) -> str:
        """The C type of numbers that calls give, of complex ones of their parts."""
        real = self.compute.real
        return "int" if self.compute.boolean else _PASSED.get(real, real)

    @property
    def parts(self) -> tuple[str, ...]:
        """The kernel's parameters for the numbers that calls give."""
        ends = ("_re", "_im") if self.compute.complex else ("",)
        return tuple(f"s{k}{end}" for k in range(len(self.scalars)) for end in ends)

    @property
    def numbers(self) -> tuple[tuple[str, str], ...]:
        """The C type and the text in the kernel of each number that calls give."""
        if self.compute.complex:
            pairs = zip(self.parts[::2], self.parts[1::2], strict=True)
            return tuple((self.ctype, f"({self.ctype})({re}, {im})") for re, im in pairs)
        return tuple((self.real, part) for part in self.parts)

    @property
    def complex(self) -> bool:
        """Whether complex numbers are read, computed or written, of which there are no vectors."""
        return any(e.complex for e in (*self.inputs, self.compute, self.result))

    @property
    def names_read(self) -> int:
        """How many inputs the expression names."""
        return len(self.names) + len(self.updated) + len(self.scalars)

    @property
    def needs_fp64(self) -> bool:
        """Whether double precision is read, computed or written."""
        return any(e.needs_fp64 for e in (*self.inputs, self.compute, self.result))

    @property
    def nbytes(self) -> int:
        """The least global traffic."""
        read = sum(
            e.itemsize * prod(n for n, s in zip(self.shape, strides, strict=True) if s)
            for e, strides in zip(self.inputs, self.strides, strict=False)
        )
        written = prod(self.shape) * self.result.itemsize
        return read + written * (1 + bool(self.updated))

    def function(self, target: Target) -> Function:
        """The expression as a C function."""
        arrays = [(n, e.value) for n, e in zip(self.names, self.inputs, strict=True)]
        arrays += [(n, self.result.value) for n in self.updated]
        numbers = [(n, ctype) for n, (ctype, _) in zip(self.scalars, self.numbers, strict=True)]
        return Function(
            "user__function",
            self.expression,
            (*arrays, *numbers),
            self.ctype,
            self.result.value,
            self.result.boolean,
            self.compute.boolean,
            not target.is_cpu,
        )


@dataclass(frozen=True)
class ElementwiseForm:
    """The form of a kernel: all that its text depends on, except the expression.

    Attributes:
        group_size: Work-items of a group.
        lanes: Those side by side along the inner axis.
        vector: Elements of a vector along it.
        across: Vectors of a work-item along it.
        down: Rows of a work-item.
        steps: Of each input and of the output, its stride along the inner axis: 0, 1, or 2 for any.
        outer: Number of the other axes.
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
class ElementwisePartition:
    """The partition of the work over work-groups.

    Attributes:
        groups: Work-groups.
        parts: Groups that share rows, side by side.
        rows, columns: What each has at most.
    """

    groups: int
    parts: int
    rows: int
    columns: int


@dataclass(frozen=True)
class ElementwiseKernel:
    """A kernel for one expression, and the partition of its work.

    Attributes:
        axes: Merged, the output's last one running fastest.
        row: The policy, and its origin.
        form, partition: The form of the kernel, and the partition of its work.
    """

    axes: tuple[Axis, ...]
    row: PolicyRow[ElementwisePolicy]
    form: ElementwiseForm
    partition: ElementwisePartition

    @property
    def rows(self) -> int:
        """Positions on all axes but the inner one."""
        return prod(axis.size for axis in self.axes[:-1])


def kernel_of(problem: Problem, target: Target, table: TuningTable) -> ElementwiseKernel:
    """Merge the axes, and return the kernel by the policy of the table."""
    every = [
        Axis(size, tuple(strides[k] for strides in problem.strides))
        for k, size in enumerate(problem.shape)
    ]
    every.sort(key=lambda axis: -abs(axis.strides[-1]))
    axes = tuple(merged(every)) or (Axis(1, (1,) * len(problem.strides)),)
    row = table.choose("elementwise", ElementwisePolicy, target, problem.result)
    form_of = _runs if target.is_cpu else _tiles
    form, partition = form_of(row.policy, target, problem, axes)
    return ElementwiseKernel(axes, row, form, partition)


def _steps(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    return tuple(step if step in (0, 1) else 2 for step in axes[-1].strides)


def _runs(
    policy: ElementwisePolicy, target: Target, problem: Problem, axes: tuple[Axis, ...]
) -> tuple[ElementwiseForm, ElementwisePartition]:
    """A CPU: runs of rows, or of parts of them, one work-item each."""
    n, rows = max(1, axes[-1].size), max(1, prod(axis.size for axis in axes[:-1]))
    function = problem.function(target)
    # Loops of integers the compiler turns into vectors of their storage's width.  PoCL 3.0 crashes
    # where it compiles vectors of 16 integers of 8 bytes.
    elements = (*problem.inputs, problem.compute, problem.result)
    vector = max(1, policy.vector_bytes // max(4, *(e.itemsize for e in elements)))
    plain = not problem.compute.floating or problem.complex
    if plain or vector == 1 or n == 1 or function.vectors(vector) is None:
        vector = 1
    most = target.compute_units * policy.groups_per_unit
    wanted = max(1, min(most, problem.nbytes // policy.work_per_group))
    wanted = 1 if target.compute_units == 1 else wanted
    groups = min(rows, wanted)
    rows_each = -(-rows // groups)
    blocks = -(-rows // rows_each)
    span = -(-n // max(1, wanted // blocks))
    span = min(n, -(-span // _RUN) * _RUN)
    parts = -(-n // span)
    form = ElementwiseForm(1, 1, vector, 1, 1, _steps(axes), len(axes) - 1, True)
    return form, ElementwisePartition(blocks * parts, parts, rows_each, span)


#: Elements that the parts of a row are multiples of: whole vectors and lines of the cache.
_RUN = 64


def _tiles(
    policy: ElementwisePolicy, target: Target, problem: Problem, axes: tuple[Axis, ...]
) -> tuple[ElementwiseForm, ElementwisePartition]:
    """A GPU: tiles, a group each, whose work-items go side by side along both axes."""
    n, rows = max(1, axes[-1].size), max(1, prod(axis.size for axis in axes[:-1]))
    steps, size = _steps(axes), policy.group_size
    elements = (*problem.inputs, problem.result)
    vector = 1
    if steps[-1] == 1 and not problem.complex:
        unit = [k for k, step in enumerate(steps) if step == 1]
        itemsize = max(elements[k].itemsize for k in unit)
        vector = max(1, min(16, policy.vector_bytes // itemsize))
        while vector > 1 and (
            vector > n
            or problem.alignment < vector * itemsize
            or any(axis.strides[k] % vector for axis in axes[:-1] for k in unit)
        ):
            vector //= 2
    vectors = -(-n // vector)
    lanes = _lanes(vectors, rows, size, target.subgroup_size)
    unroll = max(1, min(policy.unroll, _MOST_ELEMENTS // vector))
    while unroll > 1 and rows * vectors < _FULL * size * unroll * target.compute_units:
        unroll //= 2  # more groups, with less for each
    across = max(
        (1 << k for k in range(unroll.bit_length())),
        key=lambda x: (-(-(-vectors // (lanes * x)) * x), x),
    )
    if rows == 1:
        across = max(across, min(unroll, ceil_power_of_two(-(-vectors // lanes))))
    down = min(unroll // across, ceil_power_of_two(-(-rows * lanes // size)))
    high, long = size // lanes * down, lanes * vector * across
    parts = -(-n // long)
    blocks = -(-rows // high)
    reach = max(
        sum(abs(axis.strides[k]) * (axis.size - 1) for axis in axes[:-1])
        + abs(axes[-1].strides[k]) * parts * long
        for k in range(len(steps))
    )
    wide = max(reach, blocks * parts, blocks * high, parts * long) > _MOST_INT
    form = ElementwiseForm(size, lanes, vector, across, down, steps, len(axes) - 1, wide)
    return form, ElementwisePartition(blocks * parts, parts, high, long)


def _lanes(vectors: int, rows: int, size: int, subgroup: int) -> int:
    """Work-items side by side for rows of so many vectors: few idle, and a sub-group at least."""

    def padded(extent: int, step: int) -> int:
        return -(-extent // step) * step

    most = min(size, ceil_power_of_two(vectors))
    lanes = [1 << k for k in range(most.bit_length())]
    lanes = [w for w in lanes if w >= min(most, subgroup)]
    return min(lanes, key=lambda w: (padded(vectors, w) * padded(rows, size // w), -w))


def render(problem: Problem, target: Target, kernel: ElementwiseKernel) -> Specialization:
    """The OpenCL text of a problem's kernel."""
    arrays = [f"a{k}" for k in range(len(problem.inputs))]
    form, function = kernel.form, problem.function(target)
    return specialize(
        f"elementwise/{'runs' if target.is_cpu else 'tiles'}",
        target,
        f=function,
        helpers=helper_texts(function.helpers(form.vector)),
        inputs=dict(zip(arrays, problem.inputs, strict=True)),
        updated=len(problem.updated),
        scalars=[f"{problem.real} {part}" for part in problem.parts],
        numbers=problem.numbers,
        result=problem.result,
        steps=dict(zip((*arrays, "out"), form.steps, strict=True)),
        outer=form.outer,
        V=form.vector,
        G=form.group_size,
        LX=form.lanes,
        X=form.across,
        Y=form.down,
        index="long" if form.wide else "int",
    )


class ElementwisePlan(Plan):
    """An expression bound to shapes and strides, built and ready to launch from any thread.

    Attributes:
        kernel: The kernel, and the partition of its work.
    """

    def __init__(self, engine: Engine, problem: Problem, kernel: ElementwiseKernel) -> None:
        """Build the kernel.

        Raises:
            UnsupportedError: Double precision is needed and the device has none.
            BuildError: The driver refused the kernel, mostly for what the expression says.
        """
        target = engine.target
        if problem.needs_fp64 and not target.fp64:
            raise UnsupportedError(
                f"elementwise needs double precision, which {target.facts.name} lacks (no "
                "cl_khr_fp64); use arrays of float32, or scalars of Python's"
            )
        self.kernel = kernel
        self.flop = prod(problem.shape) * max(1, problem.names_read - 1)
        self.bytes = problem.nbytes
        partition, form, axes = self.kernel.partition, self.kernel.form, self.kernel.axes
        names = [*(f"a{k}" for k in range(len(problem.inputs))), "out"]
        constants = {
            "parts": partition.parts, "rows_each": partition.rows,
            "columns_each": partition.columns, "rows": self.kernel.rows, "columns": axes[-1].size,
        }  # fmt: skip
        for k, axis in enumerate(axes[:-1]):
            constants[f"outer{k}_size"] = axis.size
            for name, step in zip(names, axis.strides, strict=True):
                constants[f"{name}_outer{k}"] = step
        for name, step in zip(names, axes[-1].strides, strict=True):
            constants[f"{name}_stride"] = step
        self._bits = Packing(problem.compute, problem.scalars)
        self._launch = engine.programs.launch(
            render(problem, target, self.kernel),
            "elementwise",
            constants,
            [f"{name}_in" for name in names],
            [*(f"{name}_offset" for name in names), *problem.parts],
            (partition.groups * form.group_size,),
            (form.group_size,),
            as_bits=problem.parts,
        )

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`: of the input arrays and the output, by the numbers.

        Raises:
            ArgumentError: A scalar does not fit the dtype computed in.
        """
        if scalars:
            offsets += self._bits(scalars)
        return self._launch(state, buffers, offsets, wait_for)
