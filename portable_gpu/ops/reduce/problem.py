"""What one reduction is, apart from how any kernel computes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from portable_gpu.codegen.reductions import Request
from portable_gpu.dtypes import Element, element
from portable_gpu.runtime.views import Shape, contiguous_strides

_MOST_IN_ONE_PASS = 1 << 24  # elements of a variance


@dataclass(frozen=True)
class Problem:
    """One reduction apart from the arrays' values: the key of its plan.

    Attributes:
        request: What is computed on which elements.
        shape: Of the inputs.
        strides: Of each input, in elements.
        reduced: The folded axes.
        out_strides: Of the result without the folded axes.
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
        """Of a ``moment``: the means that it is about, as a C-ordered array."""
        centre = element(centre_dtype(self.request.acc))
        request = Request("mean", self.request.x, centre, centre)
        return replace(self, request=request, out_strides=contiguous_strides(self.kept_shape))

    @property
    def one_pass(self) -> bool:
        """Whether a ``moment`` may be computed in double precision about each first element.

        A float's distance from another is a double, but for what no float can show.  The error of
        the sums may grow by as much as the number of elements, which leaves room for so many.
        """
        narrow = self.request.x.floating and self.request.x.real == "float"
        fits = narrow and self.request.acc.real == "float" and 0 not in self.shape
        return fits and prod(self.shape[axis] for axis in self.reduced) <= _MOST_IN_ONE_PASS

    def about_first(self) -> Problem:
        """Of a ``moment``: itself, with its first elements as its second input."""
        (strides,) = self.strides
        spread = tuple(0 if axis in self.reduced else step for axis, step in enumerate(strides))
        double = element("complex128" if self.request.x.complex else "float64")
        request = replace(self.request, y=self.request.x, acc=double)
        return replace(self, request=request, strides=(strides, spread))

    def about_means(self) -> Problem:
        """Of a ``moment``: itself, with those means as its second input."""
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
