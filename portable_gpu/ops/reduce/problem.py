"""What one reduction is, apart from how any kernel computes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable_gpu.codegen.reductions import Request
from portable_gpu.dtypes import Element, element
from portable_gpu.runtime.views import Shape, contiguous_strides


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
