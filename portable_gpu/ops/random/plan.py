"""Dropout: the problem, its only variant, and the plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from portable_gpu.codegen.axes import Axis, merged, parameters
from portable_gpu.codegen.parameters import Parameter, operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.groups import group_size
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.random.mask import mask_scalars
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, overlapped

#: Multiplications of 32 bits, and twice as many other operations, of a block of four words.
_BLOCK_FLOP = 60


@dataclass(frozen=True)
class DropoutProblem:
    """The properties of a call that its plan depends on.

    Attributes:
        elem: The element type.
        shape: The shape of both arrays.
        strides: The strides of the input, unless the output replaces it, and of the output, in
            elements.
        alignment: A power of two that divides the addresses of all arrays.
    """

    elem: Element
    shape: Shape
    strides: tuple[Shape, ...]
    alignment: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kernel's arrays."""
        return ("x", "out")[-len(self.strides) :]

    @property
    def axes(self) -> list[Axis]:
        """The merged axes in C order; at least one."""
        axes = [
            Axis(size, tuple(strides[k] for strides in self.strides))
            for k, size in enumerate(self.shape)
        ]
        return merged(axes) or [Axis(1, (1,) * len(self.strides))]

    @property
    def is_plain(self) -> bool:
        """Whether both arrays are C-ordered."""
        axes = self.axes
        return len(axes) == 1 and set(axes[0].strides) == {1}

    @property
    def nbytes(self) -> int:
        """The bytes that any kernel must read and write."""
        return 2 * prod(self.shape) * self.elem.itemsize


def variants(problem: DropoutProblem, target: Target) -> list[Variant]:
    """The only variant: each work-item has blocks of four elements."""
    costs, units = DeviceCosts.of("device", target), target.compute_units
    computing = -(-prod(problem.shape) // 4) * _BLOCK_FLOP / (costs.multiply_adds * units)
    return [
        Variant(
            name="dropout",
            estimate=overlapped(computing, problem.nbytes / (costs.bandwidth * units)),
            launches=1,
            why="a block of four random words serves four elements in a row",
            texts=lambda: [render(problem, target)],
            bind=partial(dropout_plan, problem=problem),
        )
    ]


def render(problem: DropoutProblem, target: Target) -> Specialization:
    """The OpenCL text of a problem's kernel."""
    aligned = target.is_cpu or problem.alignment >= 4 * problem.elem.itemsize
    return specialize(
        "random/dropout",
        target,
        {"dropout": _parameters(problem)},
        elem=problem.elem,
        outer=len(problem.axes) - 1,
        in_place=len(problem.strides) == 1,
        plain=problem.is_plain,
        V=4 if problem.is_plain and aligned else 1,
        G=group_size(target),
    )


def _parameters(problem: DropoutProblem) -> list[Parameter]:
    elem, names = problem.elem, problem.names
    arrays = [
        parameter
        for name in names
        for parameter in operand(f"{elem.name}_t", name + "_data", writes=name == "out")
    ]
    return [
        *arrays,
        *scalars("ulong", "threshold", "stream", "seed"),
        *scalars(elem.real, "scale"),
        *scalars("long", "blocks_each", "size", "columns"),
        *parameters("outer", len(problem.axes) - 1, names),
        *scalars("long", *(f"{name}_stride" for name in names)),
    ]


def dropout_plan(engine: Engine, problem: DropoutProblem) -> OneLaunch:
    """Return the plan of dropout."""
    target, size, axes = engine.target, prod(problem.shape), problem.axes
    blocks = -(-size // 4)
    blocks_each = -(-blocks // target.compute_units) if target.is_cpu else 1
    group = group_size(target)
    items = -(-blocks // blocks_each)
    constants = {"blocks_each": blocks_each, "size": size, "columns": axes[-1].size}
    for k, axis in enumerate(axes[:-1]):
        constants[f"outer{k}_size"] = axis.size
    for at, name in enumerate(problem.names):
        constants |= {f"{name}_outer{k}": axis.strides[at] for k, axis in enumerate(axes[:-1])}
        constants[f"{name}_stride"] = axes[-1].strides[at]
    scalars = zip(("threshold", "scale", "stream", "seed"), mask_scalars(0.0, 0, 0), strict=True)
    return OneLaunch(
        engine, render(problem, target), "dropout", constants,
        [f"{name}_data" for name in problem.names], (-(-items // group) * group,), (group,),
        scalars=dict(scalars), flop=2 * size, nbytes=problem.nbytes,
    )  # fmt: skip
