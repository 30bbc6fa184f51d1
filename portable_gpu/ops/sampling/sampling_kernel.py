"""The kernel of a sampling problem: what its text and its launches take."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from portable_gpu.arguments import MAX_INT
from portable_gpu.codegen.axes import Axis, parameters
from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.sampling.problem import INDEXED, ROUTED, SamplingAxes, SamplingProblem
from portable_gpu.ops.sampling.rules import table_of
from portable_gpu.targets import Target

_LOWEST = {"char": "CHAR_MIN", "short": "SHRT_MIN", "int": "INT_MIN", "long": "LONG_MIN"}


@dataclass(frozen=True)
class SamplingKernel:
    """A kernel of a problem; it needs no device.

    Attributes:
        template: The name of the template.
        context: The parameters of the text.
        integers: The constant scalars of a launch.
        groups: The number of work-groups.
        group_size: The number of work-items of a group.
        axes: The axes of the problem.
        workspace_bytes: The sums of a plane for each work-group, if they are wider than elements.
    """

    template: str
    context: dict[str, Any]
    integers: dict[str, int]
    groups: int
    group_size: int
    axes: SamplingAxes
    workspace_bytes: int = 0

    def specialization(self, target: Target) -> Specialization:
        """The OpenCL text."""
        kernels = {"sampling": _parameters(self.context)}
        return specialize(f"sampling/{self.template}", target, kernels, **self.context)


def _parameters(context: dict[str, Any]) -> list[Parameter]:
    """The kernel's parameters: operands, the value of a copy, tables, extents and strides."""
    elem, names, index = context["e"], context["names"], context["index"]
    result = [buffer(elem.real, "sums", writes=True)] if context["sums"] else []
    for name in names:
        ctype = "long" if name in ("which", "indices") else f"{elem.name}_t"
        result.append(buffer(ctype, f"{name}_data", writes=name in ("out", "indices")))
        result += scalars("long", f"{name}_offset")
    if context["kind"] == "copy":
        result += scalars(elem.real, *(("fill_re", "fill_im") if elem.complex else ("fill",)))
    for k in range(len(context["taps"])):
        if context["blocks"] is None:
            result.append(buffer("int", f"places{k}"))
        if context["kind"] == "sum":
            result.append(buffer(elem.real, f"weights{k}"))
        counted = [f"most{k}"] if k in context["loops"] else []
        flat = [f"flat{k}"] if context["by_index"] else []
        result += scalars(index, f"size{k}", *counted, *flat, *(f"{n}_step{k}" for n in names))
    return [
        *result,
        *scalars(index, *context["extra"]),
        *parameters("outer", context["outer"], names, index),
    ]


def context_of(
    problem: SamplingProblem, axes: SamplingAxes, outer: int, extra: list[str], loops: list[int]
) -> dict[str, Any]:
    """Return the parameters of a text that all forms have.

    Args:
        problem, axes: The problem and its axes.
        outer: The number of plain axes that the kernel's index runs over.
        extra: The names of further scalars.
        loops: The ruled axes over whose taps the kernel loops.
    """
    elem = problem.elem
    lowest = "-INFINITY" if elem.floating else _LOWEST.get(elem.real, "0")
    return {
        "kind": problem.kind,
        "power": problem.power,
        "e": elem,
        "names": problem.names,
        "sources": problem.sources,
        "taps": [axis.taps for axis in axes.ruled],
        "gaps": [axis.has_gaps for axis in axes.ruled],
        "loops": loops,
        "routed": problem.kind in ROUTED,
        "by_index": problem.kind in INDEXED,
        "plain_columns": axes.column_axis is not None,
        "lowest": lowest,
        "outer": outer,
        "extra": extra,
        "blocks": None,
        "sums": False,
        "index": "long" if is_wide(problem) else "int",
    }


def is_wide(problem: SamplingProblem) -> bool:
    """Whether some offset or count needs 64 bits."""
    sizes = [prod(problem.shape), problem.source_size]
    extents = [
        max(extent, 1 if rule is None else rule.size)
        for extent, rule in zip(problem.shape, problem.rules, strict=True)
    ]
    sizes += [
        sum(abs(step) * extent for step, extent in zip(strides, extents, strict=True))
        for strides in problem.strides
    ]
    return 2 * max(sizes) > MAX_INT


def integers_of(
    problem: SamplingProblem, axes: SamplingAxes, outer: list[Axis], loops: list[int]
) -> dict[str, int]:
    """Return the extents and strides that a kernel takes; arguments: see :func:`context_of`."""
    result: dict[str, int] = {}
    for k, axis in enumerate(axes.ruled):
        result[f"size{k}"] = axis.rule.outputs
        if k in loops:
            table = table_of(axis.rule, problem.kind not in ROUTED)
            result[f"most{k}"] = len(table.places)
        if problem.kind in INDEXED:
            result[f"flat{k}"] = axis.flat
        for name, step in zip(problem.names, axis.strides, strict=True):
            result[f"{name}_step{k}"] = step
    for k, plain in enumerate(outer):
        result[f"outer{k}_size"] = plain.size
        for name, step in zip(problem.names, plain.strides, strict=True):
            result[f"{name}_outer{k}"] = step
    return result
