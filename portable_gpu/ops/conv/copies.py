"""Copies of arrays of a convolution from strides to strides."""

from __future__ import annotations

import numpy as np

from portable_gpu.dtypes import Element, element
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.runtime.views import Shape


def moved(
    elem: Element, extents: Shape, source: Shape, to: Shape, alignment: int = 1
) -> ElementwiseProblem:
    """The problem of a copy; the alignment is a power of two that divides both addresses."""
    return ElementwiseProblem(
        "x", ("x",), (elem,), (), (), computed(elem), elem, extents, (source, to), alignment
    )


def computed(elem: Element) -> Element:
    """The element that 16-bit floats are computed in, or the element itself."""
    return element(np.float32) if elem.itemsize == 2 else elem
