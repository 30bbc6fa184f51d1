"""Copies of arrays of a convolution from strides to strides."""

from __future__ import annotations

import numpy as np

from portable_gpu.dtypes import Element, element
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.runtime.views import Shape


def moved(
    elem: Element, extents: Shape, source: Shape, to: Shape, alignment: int = 1,
    read: Element | None = None,
) -> ElementwiseProblem:  # fmt: skip
    """The problem of a copy.

    Args:
        elem: The element of the copy.
        extents, source, to: The extents of the axes, and their strides in both arrays.
        alignment: A power of two that divides both addresses.
        read: The element that is read, if it is another one.
    """
    return ElementwiseProblem(
        expression="x", names=("x",), inputs=(read or elem,), updated=(), scalars=(),
        compute=computed(elem), result=elem, shape=extents, strides=(source, to),
        alignment=alignment,
    )  # fmt: skip


def computed(elem: Element) -> Element:
    """The element that 16-bit floats are computed in, or the element itself."""
    return element(np.float32) if elem.itemsize == 2 else elem
