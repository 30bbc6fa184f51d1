"""The axes of several arrays, merged so that kernels see few, and index arithmetic as C text.

A group of axes ``kind`` of array ``name`` is passed to a kernel as ``kind0_size`` (shared by all
arrays) and ``name_kind0`` (the stride, in elements), and so on.  The last axis runs fastest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """One axis: its extent, and its stride in each array (in elements)."""

    size: int
    strides: tuple[int, ...]


def merged(axes: Iterable[Axis]) -> list[Axis]:
    """Join neighbours that are one axis in every array; drop axes of extent 1."""
    found: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if found and all(
            slow == fast * axis.size
            for slow, fast in zip(found[-1].strides, axis.strides, strict=True)
        ):
            axis = Axis(found.pop().size * axis.size, axis.strides)
        found.append(axis)
    return found


def parameters(kind: str, count: int, names: Sequence[str], ctype: str = "long") -> list[str]:
    """Kernel parameters of ``count`` axes: for each, its extent and its stride in every array."""
    return [
        f"{ctype} {parameter}"
        for k in range(count)
        for parameter in (f"{kind}{k}_size", *(f"{name}_{kind}{k}" for name in names))
    ]


def digits(kind: str, count: int, index: str) -> list[str]:
    """C expressions of the place on each axis of the flat ``index`` over the axes."""
    found = []
    for k in range(count):
        below = " * ".join(f"{kind}{j}_size" for j in range(k + 1, count))
        rest = f"{index} / ({below})" if below else index
        found.append(f"({rest} % {kind}{k}_size)" if k else f"({rest})")
    return found


def offset(kind: str, name: str, places: Sequence[str]) -> str:
    """C expression of the offset in array ``name`` of a place on each axis."""
    return " + ".join(f"{at} * {name}_{kind}{k}" for k, at in enumerate(places)) or "0"
