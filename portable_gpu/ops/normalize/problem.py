"""The properties of a call on rows that do not depend on the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.normalize.programs import program
from portable_gpu.ops.normalize.row_program import RowProgram
from portable_gpu.runtime.views import Shape, View

_MOST = 1 << 31  # rows, and elements of a row, which kernels count in 32 bits


@dataclass(frozen=True)
class RowProblem:
    """One call on rows: the key of its plan.

    Attributes:
        name, flags: Those of its program.
        elems: The element types of the operands, in the order of the program.
        kept: The axes of the rows, the last one running fastest, with the strides of all operands.
        outer, inner: The axes along a row, with those of the operands that have elements.
        alignment: A power of two that divides the address of each operand's first element.
        scalars: The numbers that do not vary, in the order of the program, then the integers.
    """

    name: str
    flags: frozenset[str]
    elems: tuple[Element, ...]
    kept: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    inner: Axis
    alignment: int
    scalars: tuple[float, ...] = ()

    @property
    def program(self) -> RowProgram:
        """The computation of each row."""
        return program(self.name, self.flags)

    def operand_parameters(self) -> list[Parameter]:
        """The kernel parameters of the operands: arrays, offsets, and strides of the rows' axes."""
        p, written = self.program, dict(self.program.outputs)
        result = []
        for name, elem in zip(p.operands, self.elems, strict=True):
            result += [buffer(f"{elem.name}_t", f"{name}_data", writes=name in written)]
            result += scalars("long", f"{name}_offset")
        for k in range(len(self.kept)):
            result += scalars("uint", f"kept{k}_size")
            result += scalars("long", *(f"{name}_kept{k}" for name in p.operands))
        return result

    def row_constants(self) -> dict[str, int]:
        """The extents of the rows' axes, and the strides of the operands along them."""
        result: dict[str, int] = {}
        for k, axis in enumerate(self.kept):
            result[f"kept{k}_size"] = axis.size
            steps = zip(self.program.operands, axis.strides, strict=True)
            result |= {f"{name}_kept{k}": step for name, step in steps}
        return result

    @property
    def rows(self) -> int:
        """The number of rows."""
        return prod(axis.size for axis in self.kept)

    @property
    def count(self) -> int:
        """The elements of a row."""
        return prod(axis.size for axis in self.outer) * self.inner.size

    @property
    def real(self) -> str:
        """The C type of the arithmetic: that of the first operand."""
        return self.elems[0].real

    @property
    def bytes(self) -> int:
        """The least traffic: each operand moved once."""
        p, total = self.program, 0
        for k, (name, elem) in enumerate(zip(p.operands, self.elems, strict=True)):
            axes = [axis for axis in self.kept if axis.strides[k]]
            size = prod(axis.size for axis in axes)
            if name in p.element_names:
                at = p.element_names.index(name)
                size *= prod(a.size for a in (*self.outer, self.inner) if a.strides[at])
            total += size * elem.itemsize
        return total


def row_problem(
    name: str,
    flags: frozenset[str],
    shape: Shape,
    row_axes: frozenset[int],
    views: Sequence[View],
    strides: Mapping[str, Shape],
    scalars: tuple[float, ...],
    alignment: int,
) -> RowProblem:
    """Merge and order the axes of a call.

    Args:
        name, flags: Those of the program.
        shape: The shape of its index space.
        row_axes: The axes along a row.
        views: Those of the operands, in the order of the program.
        strides: The strides of each operand along all axes, by name; those of an operand with one
            value for a row are not used along the row.
        scalars, alignment: See :class:`RowProblem`.

    Raises:
        ArgumentError: There are more rows, or more elements of a row, than kernels count.
    """
    p = program(name, flags)
    kept_axes = [
        Axis(size, tuple(strides[operand][k] for operand in p.operands))
        for k, size in enumerate(shape)
        if k not in row_axes
    ]
    along = [
        Axis(size, tuple(strides[operand][k] for operand in p.element_names))
        for k, size in enumerate(shape)
        if k in row_axes
    ]
    if not p.index:
        along.sort(key=_by_stride)
    kept_axes.sort(key=_by_stride)
    kept_axes = merged(kept_axes) or [Axis(1, (0,) * len(p.operands))]
    *outer, inner = merged(along) or [Axis(1, (1,) * len(p.element_names))]
    elems = tuple(element(view.dtype) for view in views)
    problem = RowProblem(
        name=name, flags=flags, elems=elems, kept=tuple(kept_axes), outer=tuple(outer), inner=inner,
        alignment=alignment, scalars=scalars,
    )  # fmt: skip
    if problem.rows >= _MOST or problem.count >= _MOST:
        raise ArgumentError(
            f"{name} of {problem.rows} rows of {problem.count} elements; expected both below 2^31"
        )
    return problem


def _by_stride(axis: Axis) -> int:
    return -abs(axis.strides[0])
