"""The axes of a reduction, merged and ordered so that kernels see as few as possible."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.runtime.views import Shape


@dataclass(frozen=True)
class Geometry:
    """A reduction's axes.

    Attributes:
        kept: Axes of the result, the last running fastest; arrays: inputs, then the result.
        outer: Reduced axes but for the inner one; arrays: inputs.
        inner: The reduced axis that kernels stream along.
        shift: What to add to each input's offset (negative strides are turned round).
    """

    kept: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    inner: Axis
    shift: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Number of results."""
        return _product(axis.size for axis in self.kept)

    @property
    def outer_count(self) -> int:
        """Number of outer reduced positions."""
        return _product(axis.size for axis in self.outer)

    @property
    def count(self) -> int:
        """Elements folded into each result."""
        return self.outer_count * self.inner.size

    def elements(self, k: int) -> int:
        """Elements of input ``k``, those that are broadcast counted once."""
        axes = (*self.kept, *self.outer, self.inner)
        return _product(axis.size for axis in axes if axis.strides[k])


def analyse(
    shape: Shape, reduced: frozenset[int], strides: list[Shape], out: Shape, ordered: bool
) -> Geometry:
    """Merge and order the axes.

    Args:
        shape: Of the inputs.
        reduced: Which axes are folded.
        strides: Of each input.
        out: Strides of the result, one for each axis that is not in ``reduced``.
        ordered: Whether an element's position counts (``argmax``): reduced axes then stay in C
            order, and directions stay.
    """
    shift = [0] * len(strides)
    folded: list[Axis] = []
    kept: list[Axis] = []
    outs = iter(out)
    for axis, size in enumerate(shape):
        steps = [s[axis] for s in strides]
        if axis not in reduced:
            kept.append(Axis(size, (*steps, next(outs))))
        else:
            if not ordered and all(step <= 0 for step in steps) and size > 0:
                shift = [a + step * (size - 1) for a, step in zip(shift, steps, strict=True)]
                steps = [-step for step in steps]
            folded.append(Axis(size, tuple(steps)))
    if not ordered:
        folded.sort(key=_by_stride)
    kept.sort(key=_by_stride)
    folded = merged(folded) or [Axis(1, (0,) * len(strides))]
    return Geometry(tuple(merged(kept)), tuple(folded[:-1]), folded[-1], tuple(shift))


def _by_stride(axis: Axis) -> int:
    return -abs(axis.strides[0])


def _product(values: Iterable[int]) -> int:
    product = 1
    for value in values:
        product *= value
    return product
