"""The properties of a sampling operation, and its axes for a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import Element
from portable_gpu.ops.sampling.rules import AxisRule, table_of
from portable_gpu.runtime.views import Shape

#: The kinds whose sources have an index.
ROUTED = ("routed", "placed")
#: The kinds that compare or write indices.
INDEXED = (*ROUTED, "argmax", "picked")


@dataclass(frozen=True)
class SamplingProblem:
    """The properties of a call that its plan depends on; the key of the plan cache.

    Attributes:
        kind: The result of an output's taps: ``copy`` one of them, ``sum`` of weighted ones,
            ``max``, ``argmax`` (the largest and its index in the plane), ``routed`` (the sum of
            those that an index sends there), ``placed`` (the last one of these), or ``picked``
            (the one that the output's index names).
        elem: The element type of values.
        rules: The rule of each axis; ``None`` of an axis that stays as it is.
        shape: The shape of the result.
        strides: The strides of each operand, sources first, in elements.
        alignment: A power of two that divides each array's first address.
        power: The power of absolute values that a sum adds.  Of 2 the result is the square root.
    """

    kind: str
    elem: Element
    rules: tuple[AxisRule | None, ...]
    shape: Shape
    strides: tuple[Shape, ...]
    alignment: int
    power: int = 1

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the operands that are read."""
        return ("x", "which") if self.kind in ROUTED else ("x",)

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the operands that have the places of the result."""
        more = {"argmax": ("out", "indices"), "picked": ("which", "out")}
        return more.get(self.kind, ("out",))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all operands."""
        return self.sources + self.targets

    @property
    def source_size(self) -> int:
        """The number of elements of a source."""
        sizes = zip(self.shape, self.rules, strict=True)
        return prod(extent if rule is None else rule.size for extent, rule in sizes)

    @property
    def nbytes(self) -> int:
        """The least traffic: sources read once, targets written once."""
        read = self.elem.itemsize + (8 if self.kind in (*ROUTED, "picked") else 0)
        written = self.elem.itemsize + (8 if self.kind == "argmax" else 0)
        return self.source_size * read + prod(self.shape) * written


@dataclass(frozen=True)
class RuledAxis:
    """An axis with a rule, as a kernel has it.

    Attributes:
        rule: The rule.
        strides: The strides of the operands.
        flat: The distance of neighbours in the flat index of a plane.
        taps: See :class:`AxisTable`.
        has_gaps: Likewise.
    """

    rule: AxisRule
    strides: tuple[int, ...]
    flat: int
    taps: int
    has_gaps: bool


@dataclass(frozen=True)
class SamplingAxes:
    """The axes of a problem in the order of a kernel.

    Attributes:
        ruled: The axes with rules.
        plain: The other axes, merged, those with the largest strides of the result first.
        column_axis: The plain axis along which the result is contiguous; ``None`` if it is the last
            ruled axis, or if it is contiguous along none.
    """

    ruled: tuple[RuledAxis, ...]
    plain: tuple[Axis, ...]
    column_axis: Axis | None


def axes_of(problem: SamplingProblem) -> SamplingAxes:
    """Merge the axes of a problem, and find the one along which the result is contiguous."""
    result = len(problem.sources)  # the first target's strides decide
    ruled: list[RuledAxis] = []
    plain: list[Axis] = []
    flat = 1
    by_index = problem.kind in INDEXED
    for k in reversed(range(len(problem.shape))):
        rule, strides = problem.rules[k], tuple(steps[k] for steps in problem.strides)
        if rule is None:
            plain.append(Axis(problem.shape[k], strides))
            continue
        table = table_of(rule, problem.kind not in ROUTED)
        has_gaps = table.has_gaps and problem.kind not in ROUTED
        ruled.insert(0, RuledAxis(rule, strides, flat if by_index else 0, table.taps, has_gaps))
        flat *= rule.outputs if problem.kind in ROUTED else rule.size
    if problem.kind != "argmax":  # there the first of equal elements counts, in the plane's order
        ruled.sort(key=lambda axis: -abs(axis.strides[result]))
    plain.sort(key=lambda axis: -abs(axis.strides[result]))
    joined = merged(plain)
    nearest = min(
        (abs(axis.strides[result]) for axis in ruled if axis.rule.outputs > 1), default=None
    )
    column_axis = None
    if joined and (nearest is None or abs(joined[-1].strides[result]) < nearest):
        column_axis = joined.pop()
    return SamplingAxes(tuple(ruled), tuple(joined), column_axis)
