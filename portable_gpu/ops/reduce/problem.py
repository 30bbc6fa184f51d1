"""Problems of reductions, without a way to compute them; and their axes, merged and ordered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.codegen.reductions import Request
from portable_gpu.dtypes import Element, element
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target

_MOST_IN_ONE_PASS = 1 << 24  # elements of a variance
_FAST = 4  # of Target.double_rate: some 26 operations an element, where two passes have 12


@dataclass(frozen=True)
class Problem:
    """One reduction apart from the arrays' values: the key of its plan.

    Attributes:
        request: What is computed on which elements.
        shape: The shape of the inputs.
        strides: The strides of each input, in elements.
        reduced: The folded axes.
        out_strides: The strides of the result, without the folded axes.
        alignment: A power of two that divides each input's first address.
    """

    request: Request
    shape: Shape
    strides: tuple[Shape, ...]
    reduced: frozenset[int]
    out_strides: Shape
    alignment: int

    @property
    def kept_shape(self) -> Shape:
        """Shape of the result without the folded axes."""
        return tuple(n for axis, n in enumerate(self.shape) if axis not in self.reduced)

    def of_means(self) -> Problem:
        """Return the problem of the means of a ``moment``, as a C-ordered array."""
        centre = element(centre_dtype(self.request.acc))
        request = Request("mean", self.request.x, centre, centre)
        return replace(self, request=request, out_strides=contiguous_strides(self.kept_shape))

    def one_pass(self, target: Target) -> bool:
        """Whether a ``moment`` may be computed about each first element, in one pass.

        It takes more digits than its input has: 16- and 32-bit floats are summed by blocks of
        double precision, whose error may grow by the number of elements, and whose digits suffice
        for that; float64 in double words, where the device is fast at float64.
        """
        x, acc = self.request.x, self.request.acc
        if 0 in self.shape or target.is_cpu or not target.fp64 or not x.floating:
            return False
        if x.real == "double":
            return not x.complex and target.double_rate <= _FAST
        count = prod(self.shape[axis] for axis in self.reduced)
        return acc.real == "float" and count <= _MOST_IN_ONE_PASS

    def about_first(self) -> Problem:
        """Return a ``moment`` with its first elements as its second input."""
        (strides,) = self.strides
        spread = tuple(0 if axis in self.reduced else step for axis, step in enumerate(strides))
        x = self.request.x
        double = element("complex128" if x.complex else "float64")
        request = replace(self.request, y=x, acc=double, in_words=x.real == "double")
        return replace(self, request=request, strides=(strides, spread))

    def about_means(self) -> Problem:
        """Return a ``moment`` with those means as its second input."""
        along = iter(contiguous_strides(self.kept_shape))
        spread = tuple(0 if a in self.reduced else next(along) for a in range(len(self.shape)))
        request = replace(self.request, y=element(centre_dtype(self.request.acc)))
        return replace(self, request=request, strides=(*self.strides, spread))


def centre_dtype(acc: Element) -> np.dtype[Any]:
    """The dtype that the means of a variance are kept in."""
    names = {
        ("float", False): np.float32,
        ("double", False): np.float64,
        ("float", True): np.complex64,
        ("double", True): np.complex128,
    }
    return np.dtype(names[acc.real, acc.complex])


@dataclass(frozen=True)
class Geometry:
    """A reduction's axes.

    Attributes:
        kept: Axes of the result, the last running fastest; arrays: inputs, then the result.
        outer: Reduced axes except the inner one; arrays: inputs.
        inner: The reduced axis that kernels stream along.
        shift: What to add to each input's offset (negative strides are reversed).
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
        shape: The shape of the inputs.
        reduced: Which axes are folded.
        strides: The strides of each input.
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
