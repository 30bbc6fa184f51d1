"""The epilogue of a convolution whose last kernel does not apply it: a pass over the result.

The pass reads each element of the result and stores it anew, in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod

from portable_gpu.codegen.axes import Axis, merged, parameters
from portable_gpu.codegen.epilogue import Finish, stored_operands
from portable_gpu.codegen.parameters import Parameter, operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.conv.copies import computed
from portable_gpu.ops.conv.items import index_type, launch_sizes
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts

#: Elements of a CPU's work-item at most: 16 KiB of float32, so that cores share small results.
_CPU_ITEM_ELEMENTS = 4096


def finish(p: ConvProblem, steps: Sequence[int] | None = None) -> Finish | None:
    """Return the epilogue for a kernel; ``None`` if the convolution has none.

    Args:
        p: The convolution.
        steps: The stride of each array along the kernel's rows, whose columns are channels; by
            default its stride along the last axis of space.
    """
    if not p.epilogue:
        return None
    rows = [extra.strides.space[2] for extra in p.extras] if steps is None else steps
    extras = tuple(
        Operand(extra.elem, row, extra.strides.channel)
        for extra, row in zip(p.extras, rows, strict=True)
    )
    return Finish(computed(p.elem), p.epilogue, extras)


def array_names(p: ConvProblem) -> list[str]:
    """Return the names of the arrays of the epilogue in kernels."""
    return [f"e{k}" for k in range(len(p.extras))]


def image_parameters(epilogue: Finish | None) -> list[Parameter]:
    """Declare the arrays of the epilogue for a kernel that includes ``conv/_epilogue``."""
    if epilogue is None:
        return []
    arrays = range(len(epilogue.extras))
    names = [f"e{k}_{axis}" for k in arrays for axis in ("outer", "axis0", "axis1")]
    return [*stored_operands(epilogue.extras), *scalars("long", *names)]


def image_constants(p: ConvProblem, space_strides: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the strides of the arrays as integers of a launch.

    Args:
        p: The convolution.
        space_strides: For each array, its strides along the kernel's three axes of space.
    """
    result: dict[str, int] = {}
    for name, extra, space in zip(array_names(p), p.extras, space_strides, strict=True):
        result |= {f"{name}_axis{c}": step for c, step in enumerate(space[:2])}
        result |= {f"{name}_outer": extra.strides.outer, f"{name}_col": extra.strides.channel}
        result[f"{name}_row"] = space[2]
    return result


@dataclass(frozen=True)
class EpiloguePass:
    """The pass over the result of a convolution.

    Attributes:
        problem: The convolution.
        target: The device.
    """

    problem: ConvProblem
    target: Target

    @cached_property
    def axes(self) -> list[Axis]:
        """The merged axes of the result, slowest first, with the strides of it and the arrays."""
        p = self.problem
        image, size, channels = p.images
        arrays = [image, *(extra.strides for extra in p.extras)]
        extents = p.batch, channels, *size
        steps = zip(*((a.outer, a.channel, *a.space) for a in arrays), strict=True)
        axes = [Axis(n, strides) for n, strides in zip(extents, steps, strict=True)]
        axes.sort(key=lambda axis: -abs(axis.strides[0]))
        return merged(axes) or [Axis(1, (0,) * len(arrays))]

    @property
    def columns(self) -> int:
        """The elements of a work-item along the last axis."""
        return min(_CPU_ITEM_ELEMENTS, self.axes[-1].size) if self.target.is_cpu else 1

    @property
    def items(self) -> int:
        """The number of work-items that have elements."""
        *outer, inner = self.axes
        return prod(axis.size for axis in outer) * -(-inner.size // self.columns)

    @property
    def nbytes(self) -> int:
        """The bytes that are read and written."""
        _, size, channels = self.problem.images
        elements = self.problem.batch * channels * prod(size)
        return 2 * elements * self.problem.elem.itemsize + self.problem.extra_bytes

    @property
    def specialization(self) -> Specialization:
        """The text and options."""
        p, rank = self.problem, len(self.axes) - 1
        *_, inner = self.axes
        epilogue = finish(p, inner.strides[1:])
        assert epilogue is not None
        names = ["y", *array_names(p)]
        index = index_type(max(self.items, inner.size), self.target)
        kernel_parameters = [
            *operand(f"{p.elem.name}_t", "y", "y_row", writes=True),
            *stored_operands(epilogue.extras),
            *parameters("outer", rank, names), *scalars(index, "items", "size", "columns"),
        ]  # fmt: skip
        return specialize(
            "conv/epilogue", self.target, {"finish": kernel_parameters},
            elem=p.elem, finish=epilogue, I=index, outer=rank, names=names,
            known_strides={n: s for n, s in zip(names, inner.strides, strict=True) if s in (0, 1)},
        )  # fmt: skip

    @property
    def constants(self) -> dict[str, int]:
        """The integers of a launch."""
        *outer, inner = self.axes
        names = ["y", *array_names(self.problem)]
        result = {f"outer{d}_size": axis.size for d, axis in enumerate(outer)}
        for d, axis in enumerate(outer):
            result |= {f"{n}_outer{d}": s for n, s in zip(names, axis.strides, strict=True)}
        result |= {f"{n}_row": s for n, s in zip(names, inner.strides, strict=True)}
        result |= {f"{n}_col": 0 for n in names[1:]}  # the axes of the pass are all in rows
        return result | {"items": self.items, "size": inner.size, "columns": self.columns}


def with_pass(variant: Variant, problem: ConvProblem, target: Target) -> Variant:
    """Return a variant of the convolution alone, followed by the pass over its result."""
    pass_ = EpiloguePass(problem, target)
    bandwidth = DeviceCosts.of("device", target).bandwidth * target.compute_units
    return replace(
        variant,
        estimate=variant.estimate + pass_.nbytes / bandwidth,
        launches=variant.launches + 1,
        why=f"{variant.why}; the epilogue is a pass over the result",
        texts=lambda: [*variant.texts(), pass_.specialization],
        bind=partial(_bind, problem=problem, variant=variant),
        details={
            **variant.details, "bytes": variant.details["bytes"] + problem.extra_bytes,
            "moved": variant.details["moved"] + pass_.nbytes,
        },
    )  # fmt: skip


def with_arrays(variant: Variant, problem: ConvProblem, target: Target) -> Variant:
    """Return a variant whose last kernel reads the arrays of the epilogue, with their traffic."""
    if not problem.extras:
        return variant
    bandwidth = DeviceCosts.of("device", target).bandwidth * target.compute_units
    more = {name: variant.details[name] + problem.extra_bytes for name in ("bytes", "moved")}
    return replace(
        variant,
        estimate=variant.estimate + problem.extra_bytes / bandwidth,
        details={**variant.details, **more},
    )


def _bind(engine: Engine, problem: ConvProblem, variant: Variant) -> Plan:
    """Return the plan: the convolution, then the pass."""
    p, last = problem, problem.last  # the index of the result among the operands
    first_extra = last - len(p.extras)
    convolved = Step(variant.bind(engine), (*range(first_extra), last))
    pass_ = EpiloguePass(p, engine.target)
    finished = OneLaunch(
        engine, pass_.specialization, "finish", pass_.constants, [*array_names(p), "y"],
        *launch_sizes(pass_.items, 1, engine.target),
    )  # fmt: skip
    plan = Steps([convolved, Step(finished, (*range(first_extra, last), last))])
    plan.flop, plan.bytes = p.flop, p.bytes
    return plan
