"""Forward and backward substitution with the panels of a stage, on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portable_gpu.codegen.parameters import Parameter, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.estimates import BlockSizes
from portable_gpu.ops.factor.plan import cells_of
from portable_gpu.ops.factor.policy import TILE, on_matrix_units, panels
from portable_gpu.ops.fronts.device import DeviceFronts, ElementOf, FrontsPlan
from portable_gpu.ops.fronts.kernels import (
    COUNTERS,
    fronts_tables,
    read,
    tables,
    written,
)
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.runtime.plan import Step, Temporary
from portable_gpu.targets import Target

_Table = np.ndarray[Any, np.dtype[np.int32]]
_Operands = tuple[int | Temporary, ...]
#: A class of small fronts: maximum rows and own columns; work-items and right-hand sides of a
#: group.
_Shape = tuple[int, int, int, int]
_Classes = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
_GROUP = 256
#: The maximum number of right-hand sides for which each of them has a work-group of its own.
_MAX_VECTORS = 3
#: Classes of small fronts, for groups with one right-hand side, and with 128 bytes of right-hand
#: sides: maximum own columns of a launch, which give its local memory; and pairs of maximum rows
#: and work-items.
_NARROW: _Classes = (24,), ((512, 256),)
_WIDE: _Classes = (24, 48), ((64, 64), (160, 128))
_LINE = 128  # bytes of right-hand sides of a row


def supports_stages(target: Target, elem: Element) -> bool:
    """Return whether a target supports these kernels, whose work-groups wait for each other."""
    return not target.is_cpu and BlockSizes.of(target, elem).tiled


def steps_of_stage(
    device: DeviceFronts, which: _Table, count: int, operands: _Operands, backward: bool
) -> list[Step]:
    """Return the steps of one stage; arguments as for ``substitution_steps``.

    The operands are the panels, X and the contributions, which only the forward direction has.
    """
    elem, fronts = device.elem, device.fronts
    operands = operands[: 2 if backward else 3]
    tables = {} if backward else device.contribution_lists
    columns_of_group, (widths, classes) = (
        (1, _NARROW) if count <= _MAX_VECTORS else (_LINE // elem.itemsize, _WIDE)
    )
    rows = fronts.columns[which] + fronts.rows[which]
    is_small = fronts.columns[which] <= widths[-1]
    steps, min_rows = [], 0
    for size, lanes in classes:
        fronts_of_class = which[is_small & (rows > min_rows) & (rows <= size)]
        min_rows = size
        if fronts_of_class.size:
            columns = int(fronts.columns[fronts_of_class].max())
            shape = (
                size,
                next(width for width in widths if columns <= width),
                lanes,
                columns_of_group,
            )
            steps.append(_small(device, fronts_of_class, count, operands, shape, tables, backward))
    which = which[~is_small | (rows > min_rows)]
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
    """Return the launch for fronts of one class."""
    *_, lanes, columns_of_group = shape
    pieces = -(-count // columns_of_group)
    spec = small_spec(device.elem, device.engine.target, shape, backward)
    plan = FrontsPlan(
        device=device, spec=spec, name=spec.name.removeprefix("fronts/"),
        constants={"count": count, "pieces": pieces},
        operands=["factor", "x", "contributions"][: len(operands)], groups=len(which) * pieces,
        size=lanes, further={"which": which.astype(np.int32), **tables},
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
    """Return the launch for all other fronts."""
    target, elem, fronts = device.engine.target, device.elem, device.fronts
    blocks = tasks(fronts, which.astype(np.int64), backward)
    names = ["factor", "x", "contributions"][: len(operands)]
    if count <= _MAX_VECTORS:
        groups = len(blocks) * count
        spec = vector_spec(elem, target, backward)
        cells = cells_of(int((-(-fronts.columns[which] // TILE)).sum()) * count, elem)
        constants, counters = {"groups": groups, "count": count, "cells": cells}, 2 * cells
    else:
        across = -(-count // TILE)
        groups = counters = len(blocks) * across
        spec = solve_spec(elem, target, backward)
        constants = {"groups": groups, "count": count, "tiles_f": across}
        names[1] = "x_all"
    plan = FrontsPlan(
        device=device, spec=spec, name=spec.name.removeprefix("fronts/"), constants=constants,
        operands=names, groups=groups, size=_GROUP, further={"tasks": blocks, **tables},
        counters=2 + counters,
    )  # fmt: skip
    return Step(plan, operands)


def tasks(fronts: Fronts, which: np.ndarray[Any, np.dtype[np.int64]], backward: bool) -> _Table:
    """Order the blocks of fronts; return for each: front, block, and two starts.

    The starts are the numbers of own blocks, and of all blocks, of the fronts before.  A block is
    behind all blocks that it depends on, and blocks with long chains of dependents are first.  The
    backward substitution has only blocks of own columns.
    """
    own_blocks = -(-fronts.columns[which] // TILE)
    blocks = own_blocks if backward else own_blocks - (-fronts.rows[which] // TILE)
    front = np.repeat(np.arange(len(which)), blocks)
    start = np.repeat(np.cumsum(blocks) - blocks, blocks)
    block = np.arange(len(front)) - start
    order = np.argsort(-np.maximum(own_blocks[front] - block, 0), kind="stable")
    own_start = np.repeat(np.cumsum(own_blocks) - own_blocks, blocks)
    blocks_of_fronts = np.stack([which[front], block, own_start, start], axis=1)
    return blocks_of_fronts[order].astype(np.int32)


def small_spec(elem: Element, target: Target, shape: _Shape, backward: bool) -> Specialization:
    """Render the kernel of small fronts of one class."""
    size, columns, lanes, columns_of_group = shape
    name = "small_backward" if backward else "small_forward"
    parameters = [
        *tables("int", "which", *_lists(backward)),
        *fronts_tables(),
        *scalars("long", "count", "pieces"),
        *read(elem, "factor", restrict=True),
        *written(elem, "x", restrict=not backward),
        *([] if backward else written(elem, "contributions")),
    ]
    return specialize(
        f"fronts/{name}", target, {name: parameters},
        e=elem, size=size, columns=columns, lanes=lanes, wide=columns_of_group,
    )  # fmt: skip


def _lists(backward: bool) -> tuple[str, ...]:
    """The names of the lists of contributions, which the forward direction reads."""
    return () if backward else ("addends_start", "addends")


def _long_parameters(
    elem: Element, backward: bool, sizes: Sequence[Parameter], x: str
) -> list[Parameter]:
    """Declare the parameters of the kernels of other fronts."""
    names = (x,) if backward else (x, "contributions")
    return [
        *tables("int4", "tasks"),
        *tables("int", *_lists(backward)),
        *fronts_tables(),
        *sizes,
        *read(elem, "factor"),
        *written(elem, *names),
        COUNTERS,
    ]


def vector_spec(elem: Element, target: Target, backward: bool) -> Specialization:
    """Render the kernel of other fronts for few right-hand sides."""
    sizes = [*scalars("uint", "groups"), *scalars("long", "cells", "count")]
    kernels = {"vector": _long_parameters(elem, backward, sizes, "x")}
    return specialize("fronts/vector", target, kernels, e=elem, backward=backward)


def solve_spec(elem: Element, target: Target, backward: bool) -> Specialization:
    """Render the kernel of other fronts for many right-hand sides."""
    sizes = [*scalars("uint", "groups"), *scalars("long", "count"), *scalars("int", "tiles_f")]
    return specialize(
        "fronts/solve",
        target,
        {"solve": _long_parameters(elem, backward, sizes, "x_all")},
        e=elem,
        problem=ElementOf(elem),
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
        by_columns=False,
        item_rows=4 if elem.complex else 8,
        mma=on_matrix_units(elem, target),
    )


def typical_texts(elem: Element, target: Target, backward: bool) -> list[Specialization]:
    """Return one kernel of each kind."""
    texts = [vector_spec(elem, target, backward), solve_spec(elem, target, backward)]
    for wide, (widths, classes) in ((1, _NARROW), (_LINE // elem.itemsize, _WIDE)):
        size, lanes = classes[-1]
        texts.append(small_spec(elem, target, (size, widths[-1], lanes, wide), backward))
    return texts
