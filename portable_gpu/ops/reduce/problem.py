"""Problems of reductions, and their merged and ordered axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.codegen.reductions import Reduction, Request, reduction
from portable_gpu.dtypes import Element, element
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target

_MOST_IN_ONE_PASS = 1 << 24  # elements of a variance
#: The maximum of Target.double_rate for a variance of float64 in one pass: it takes about 26
#: operations for each element, two passes take 12.
_FAST = 4


@dataclass(frozen=True)
class Problem:
    """One reduction without the arrays' values: the key of its plan.

    Attributes:
        request: The operation and its dtypes.
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
    def result_shape(self) -> Shape:
        """Shape of the result without the folded axes."""
        return tuple(n for axis, n in enumerate(self.shape) if axis not in self.reduced)

    def reduction(self, target: Target) -> Reduction:
        """Return the reduction, in the arithmetic that suits the target.

        On a CPU the norm of single precision is summed in double precision, whose range holds every
        square.  This takes half the time of sums of large, medium and small squares apart.  On GPUs
        double precision is slower.
        """
        request = self.request
        if request.name == "nrm2" and target.is_cpu and target.fp64:
            request = replace(request, acc=element("float64"))
        return reduction(request)

    def of_means(self) -> Problem:
        """Return the problem of the means of a ``moment``, as a C-ordered array."""
        centre = element(centre_dtype(self.request.acc))
        request = Request("mean", self.request.x, centre, centre)
        return replace(self, request=request, out_strides=contiguous_strides(self.result_shape))

    def one_pass(self, target: Target) -> bool:
        """Whether a ``moment`` is computed in one pass, as differences from each first element.

        This needs a higher precision than that of the input.  16- and 32-bit floats are summed in
        double precision, which is accurate enough for a limited number of elements.  Float64 is
        summed in pairs of numbers, if the device is fast at float64.
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
        along = iter(contiguous_strides(self.result_shape))
        spread = tuple(0 if a in self.reduced else next(along) for a in range(len(self.shape)))
        request = replace(self.request, y=element(centre_dtype(self.request.acc)))
        return replace(self, request=request, strides=(*self.strides, spread))


def centre_dtype(acc: Element) -> np.dtype[Any]:
    """Return the dtype in which the means of a variance are stored."""
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
        result_axes: The axes of the result with the strides of the inputs and of the result; the
            last one is the fastest.
        outer: The reduced axes except the inner one, with the strides of the inputs.
        inner: The reduced axis along which kernels read, with the strides of the inputs.
        shift: The elements to add to each input's offset, because negative strides are reversed.
    """

    result_axes: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    inner: Axis
    shift: tuple[int, ...]

    @property
    def rows(self) -> int:
        """The number of results."""
        return _product(axis.size for axis in self.result_axes)

    @property
    def outer_count(self) -> int:
        """The number of positions on the outer axes."""
        return _product(axis.size for axis in self.outer)

    @property
    def count(self) -> int:
        """The number of elements of each result."""
        return self.outer_count * self.inner.size

    def elements(self, k: int) -> int:
        """Return the number of elements of input ``k``; broadcast elements count once."""
        axes = (*self.result_axes, *self.outer, self.inner)
        return _product(axis.size for axis in axes if axis.strides[k])


def analyse(
    shape: Shape, reduced: frozenset[int], strides: list[Shape], out: Shape, ordered: bool
) -> Geometry:
    """Merge and order the axes.

    Args:
        shape: The shape of the inputs.
        reduced: The axes that are reduced.
        strides: The strides of each input.
        out: The strides of the result, one for each axis that is not in ``reduced``.
        ordered: Whether the result depends on the order of elements (``argmax``).  Then reduced
            axes stay in C order, and negative strides are not reversed.
    """
    shift = [0] * len(strides)
    folded: list[Axis] = []
    result_axes: list[Axis] = []
    outs = iter(out)
    for axis, size in enumerate(shape):
        steps = [s[axis] for s in strides]
        if axis not in reduced:
            result_axes.append(Axis(size, (*steps, next(outs))))
        else:
            if not ordered and all(step <= 0 for step in steps) and size > 0:
                shift = [a + step * (size - 1) for a, step in zip(shift, steps, strict=True)]
                steps = [-step for step in steps]
            folded.append(Axis(size, tuple(steps)))
    if not ordered:
        folded.sort(key=_by_stride)
    result_axes.sort(key=_by_stride)
    folded = merged(folded) or [Axis(1, (0,) * len(strides))]
    return Geometry(tuple(merged(result_axes)), tuple(folded[:-1]), folded[-1], tuple(shift))


def _by_stride(axis: Axis) -> int:
    return -abs(axis.strides[0])


def _product(values: Iterable[int]) -> int:
    product = 1
    for value in values:
        product *= value
    return product
