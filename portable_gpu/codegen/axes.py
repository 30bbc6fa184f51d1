"""Merge the axes of several arrays, and write their index arithmetic as C text.

A group of axes ``kind`` of array ``name`` is passed to a kernel as ``kind0_size`` (shared by all
arrays) and ``name_kind0`` (the stride, in elements), and so on.  The last axis runs fastest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from portable_gpu.codegen.parameters import Parameter, scalars


@dataclass(frozen=True)
class Axis:
    """One axis: its extent, and its stride in each array (in elements)."""

    size: int
    strides: tuple[int, ...]


def merged(axes: Iterable[Axis]) -> list[Axis]:
    """Join adjacent axes that are contiguous in every array; drop axes of extent 1."""
    merged_axes: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if merged_axes and all(
            slow == fast * axis.size
            for slow, fast in zip(merged_axes[-1].strides, axis.strides, strict=True)
        ):
            axis = Axis(merged_axes.pop().size * axis.size, axis.strides)
        merged_axes.append(axis)
    return merged_axes


def parameters(kind: str, count: int, names: Sequence[str], ctype: str = "long") -> list[Parameter]:
    """Kernel parameters of ``count`` axes: for each, its extent and its stride in every array."""
    return [
        parameter
        for k in range(count)
        for parameter in scalars(ctype, f"{kind}{k}_size", *(f"{name}_{kind}{k}" for name in names))
    ]


def digits(kind: str, count: int, index: str) -> list[str]:
    """The C expressions of the index along each axis, from the flat ``index`` over all axes."""
    expressions = []
    for k in range(count):
        faster_extent = " * ".join(f"{kind}{j}_size" for j in range(k + 1, count))
        quotient = f"{index} / ({faster_extent})" if faster_extent else index
        expressions.append(f"({quotient} % {kind}{k}_size)" if k else f"({quotient})")
    return expressions


def offset(kind: str, name: str, places: Sequence[str]) -> str:
    """The C expression of the offset in array ``name`` of the element at the given indices."""
    return " + ".join(f"{at} * {name}_{kind}{k}" for k, at in enumerate(places)) or "0"
