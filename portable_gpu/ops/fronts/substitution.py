"""Forward and backward substitution with a stage's panels on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.estimates import Sizes
from portable_gpu.ops.factor.plan import cells_of
from portable_gpu.ops.factor.policy import TILE, on_matrix_units, panels
from portable_gpu.ops.fronts.device import DeviceFronts, FrontsPlan, Of
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.runtime.plan import Step, Temporary
from portable_gpu.targets import Target

_Table = np.ndarray[Any, np.dtype[np.int32]]
_Operands = tuple[int | Temporary, ...]
#: Of a class of small fronts: rows and own columns of the largest; work-items and right-hand sides
#: of a group.
_Shape = tuple[int, int, int, int]
_Classes = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
_GROUP = 256
#: Right-hand sides of a launch that has a work-group for each of them.
_FEW = 3
#: Small fronts, whose groups have one right-hand side, or as many as 128 bytes hold: own columns of
#: the largest of a launch, in classes of local memory; and classes of rows, with work-items.
_NARROW: _Classes = (24,), ((512, 256),)
_WIDE: _Classes = (24, 48), ((64, 64), (160, 128))
_LINE = 128


def forward_stage(
    device: DeviceFronts,
    which: _Table,
    count: int,
    factor: int,
    x: int | Temporary,
    contributions: int | Temporary,
) -> list[Step]:
    """The steps of one stage of ``Y = L^-1 B``; arguments as of ``forward_steps``."""
    return _stage(device, which, count, (factor, x, contributions), backward=False)


def backward_stage(
    device: DeviceFronts, which: _Table, count: int, factor: int, x: int | Temporary
) -> list[Step]:
    """The steps of one stage of ``X = L^-H Y``; arguments as of ``backward_steps``."""
    return _stage(device, which, count, (factor, x), backward=True)


def takes_stages(target: Target, elem: Element) -> bool:
    """Whether a target has these kernels: its work-groups wait for each other."""
    return not target.is_cpu and Sizes.of(target, elem).tiled


def _stage(
    device: DeviceFronts,
    which: _Table,
    count: int,
    operands: _Operands,
    backward: bool,
) -> list[Step]:
    elem, fronts = device.elem, device.fronts
    tables = {} if backward else device.taken
    wide, (widths, classes) = (1, _NARROW) if count <= _FEW else (_LINE // elem.itemsize, _WIDE)
    rows = fronts.columns[which] + fronts.rows[which]
    is_small = fronts.columns[which] <= widths[-1]
    steps, least = [], 0
    for size, lanes in classes:
        found = which[is_small & (rows > least) & (rows <= size)]
        least = size
        if found.size:
            columns = int(fronts.columns[found].max())
            shape = size, next(most for most in widths if columns <= most), lanes, wide
            steps.append(_small(device, found, count, operands, shape, tables, backward))
    which = which[~is_small | (rows > least)]
    if which.size:
        steps.append(_long(device, which, count, operands, tables, backward))
    return steps


def _small(
    device: DeviceFronts,
    which: _Table,
    count: int,
    operands: _Operands,
    shape: _Shape,
    tables: Mapping[str, Any],
    backward: bool,
) -> Step:
    """A launch for fronts of one class."""
    *_, lanes, wide = shape
    pieces = -(-count // wide)
    text = small_text(device.elem, device.engine.target, shape, backward)
    plan = FrontsPlan(
        device, text, text.name.removeprefix("fronts/"), {"count": count, "pieces": pieces},
        ["factor", "x", "contributions"][: len(operands)], len(which) * pieces, lanes,
        {"which": which.astype(np.int32), **tables},
    )  # fmt: skip
    return Step(plan, operands)


def _long(
    device: DeviceFronts,
    which: _Table,
    count: int,
    operands: _Operands,
    tables: Mapping[str, Any],
    backward: bool,
) -> Step:
    """A launch for all other fronts."""
    target, elem, fronts = device.engine.target, device.elem, device.fronts
    listed = tasks(fronts, which.astype(np.int64), backward)
    names = ["factor", "x", "contributions"][: len(operands)]
    if count <= _FEW:
        groups = len(listed) * count
        text = vector_text(elem, target, backward)
        cells = cells_of(int((-(-fronts.columns[which] // TILE)).sum()) * count, elem)
        constants, counters = {"groups": groups, "count": count, "cells": cells}, 2 * cells
    else:
        across = -(-count // TILE)
        groups = counters = len(listed) * across
        text = solve_text(elem, target, backward)
        constants = {"groups": groups, "count": count, "tiles_f": across}
        names[1] = "x_all"
    plan = FrontsPlan(
        device, text, text.name.removeprefix("fronts/"), constants, names, groups, _GROUP,
        {"tasks": listed, **tables}, counters=2 + counters,
    )  # fmt: skip
    return Step(plan, operands)


def tasks(fronts: Fronts, which: np.ndarray[Any, np.dtype[np.int64]], backward: bool) -> _Table:
    """The blocks of fronts: front, block, how many own and how many of all are of fronts before.

    A block comes behind all that it rests on, and what begins a long chain before what begins a
    short one.  Backward there are only blocks of own columns.
    """
    own = -(-fronts.columns[which] // TILE)
    blocks = own if backward else own - (-fronts.rows[which] // TILE)
    front = np.repeat(np.arange(len(which)), blocks)
    start = np.repeat(np.cumsum(blocks) - blocks, blocks)
    block = np.arange(len(front)) - start
    order = np.argsort(-np.maximum(own[front] - block, 0), kind="stable")
    owned = np.repeat(np.cumsum(own) - own, blocks)
    listed = np.stack([which[front], block, owned, start], axis=1)
    return listed[order].astype(np.int32)


def small_text(elem: Element, target: Target, shape: _Shape, backward: bool) -> Specialization:
    """The kernel of small fronts of one class."""
    size, columns, lanes, wide = shape
    name = "fronts/small_backward" if backward else "fronts/small_forward"
    return specialize(name, target, e=elem, size=size, columns=columns, lanes=lanes, wide=wide)


def vector_text(elem: Element, target: Target, backward: bool) -> Specialization:
    """The kernel of other fronts for few right-hand sides."""
    return specialize("fronts/vector", target, e=elem, backward=backward)


def solve_text(elem: Element, target: Target, backward: bool) -> Specialization:
    """The kernel of other fronts for many right-hand sides."""
    return specialize(
        "fronts/solve",
        target,
        e=elem,
        problem=Of(elem),
        backward=backward,
        factorise=False,
        in_fronts=True,
        paired=False,
        panels=panels(elem, target),
        adds=False,
        separate=False,
        unit=False,
        conj=elem.complex and backward,
        p_along=not backward,
        q_along=False,
        by_s=False,
        depth=4 if elem.complex else 8,
        mma=on_matrix_units(elem, target),
    )


def typical_texts(elem: Element, target: Target, backward: bool) -> list[Specialization]:
    """Kernels of each kind."""
    found = [vector_text(elem, target, backward), solve_text(elem, target, backward)]
    for wide, (widths, classes) in ((1, _NARROW), (_LINE // elem.itemsize, _WIDE)):
        size, lanes = classes[-1]
        found.append(small_text(elem, target, (size, widths[-1], lanes, wide), backward))
    return found
