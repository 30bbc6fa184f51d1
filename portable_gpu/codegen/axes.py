"""Index arithmetic over several axes as C text.

A group of axes ``kind`` of array ``name`` is passed to a kernel as ``kind0_size`` (shared by all
arrays) and ``name_kind0`` (the stride, in elements), and so on.  The last axis runs fastest.
"""

from __future__ import annotations

from collections.abc import Sequence


def parameters(kind: str, count: int, names: Sequence[str]) -> list[str]:
    """Kernel parameters of ``count`` axes: for each, its extent and its stride in every array."""
    return [
        parameter
        for k in range(count)
        for parameter in (f"long {kind}{k}_size", *(f"long {name}_{kind}{k}" for name in names))
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
