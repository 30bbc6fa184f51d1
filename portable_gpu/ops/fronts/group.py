"""The fronts of a stage on a GPU: small fronts, assembly, tiles in one launch, large fronts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable_gpu.codegen.parameters import Parameter, buffer, operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor import estimates
from portable_gpu.ops.factor.estimates import BlockSizes
from portable_gpu.ops.factor.policy import TILE, on_matrix_units, panels
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.variants import cholesky_variants, parts, solve_variants
from portable_gpu.ops.fronts.device import (
    ARENA,
    FACTOR,
    PIVOT_STATUS,
    VALUES,
    DeviceFronts,
    ElementOf,
    FrontsPlan,
)
from portable_gpu.ops.fronts.kernels import (
    COUNTERS,
    fronts_tables,
    read,
    tables,
    written,
)
from portable_gpu.ops.fronts.large import front_steps
from portable_gpu.ops.fronts.tiling import cuts, tickets
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.variant import best_of
from portable_gpu.runtime.plan import Step
from portable_gpu.targets import Target

_Table = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]
_Floats = np.ndarray[Any, np.dtype[np.float64]]
#: Classes of small fronts: maximum rows, work-items of a group, and work-items along a row.
_CLASSES = ((16, 32, 8), (32, 64, 8), (64, 128, 16), (96, 256, 16))
_GROUP = 256
#: Fronts with fewer operations are never large: they are factorised by tiles.
_MIN_LARGE_FLOPS = 1e10
#: Bytes of local memory of a group of 256 that do not reduce the occupancy.
_MAX_LOCAL_BYTES = 36000


def group_steps(device: DeviceFronts, which: _Table | _Int64) -> list[Step]:
    """Return the steps of a stage on a GPU; operands as for ``stage_steps``.

    Small fronts, whose triangle fits into local memory, are assembled and factorised there, with
    one launch for each class of sizes.  The tiles of medium fronts are assembled in one launch;
    the tiles of own columns are factorised in a second one, and the updates computed in a third.
    Large fronts have plans of their own.
    """
    engine, fronts = device.engine, device.fronts
    target, elem = engine.target, device.elem
    which = which.astype(np.int64)
    size = fronts.columns[which] + fronts.rows[which]
    steps, min_size = [], 0
    for shape in classes(target, elem):
        class_ = which[(size > min_size) & (size <= shape[0])]
        if class_.size:
            steps.append(_small(device, class_, shape))
        min_size = shape[0]
    which = which[size > min_size]
    if not which.size:
        return steps
    sizes = BlockSizes.of(target, elem)
    flop = flops_of(device, which)
    is_large = np.array(
        [_is_large(device, int(front), int(n), sizes) for front, n in zip(which, flop, strict=True)]
    )
    middle, large = which[~is_large], which[is_large]
    if middle.size:
        tiles = tickets(fronts, middle)
        steps += [_assemble(device, tiles), *_tiles(device, middle, tiles)]
    sub_plans = parts(engine, sizes)
    if large.size:
        steps.append(_assemble(device, tickets(fronts, large)))
    for front in large:
        steps += front_steps(sub_plans, device, int(front))
    return steps


def classes(target: Target, elem: Element) -> list[tuple[int, int, int]]:
    """Return the classes of small fronts that a target supports: see :data:`_CLASSES`."""
    supported = []
    for size, min_lanes, across in _CLASSES:
        nbytes = size * (size + 1) // 2 * elem.itemsize + size * (elem.itemsize + 4)
        lanes = max(min_lanes, min(64, target.subgroup_size))
        if nbytes <= target.local_mem_size and lanes <= target.max_work_group_size:
            supported.append((size, lanes, across))
    return supported


def flops_of(device: DeviceFronts, which: _Table | _Int64) -> _Floats:
    """Compute the operations of the factorisation of each of some fronts, without assembly."""
    c = device.fronts.columns[which].astype(float)
    u = device.fronts.rows[which].astype(float)
    real: _Floats = c * (c + 1) * (2 * c + 1) / 6 + c * c * u + c * u * (u + 1)
    return real * (4 if device.elem.complex else 1)


def flop_of(device: DeviceFronts, which: _Table | _Int64) -> int:
    """Compute the operations of the factorisation of some fronts, without assembly."""
    return int(flops_of(device, which).sum())


def _is_large(device: DeviceFronts, front: int, flop: int, sizes: BlockSizes) -> bool:
    """Return whether separate plans take less time for a front than tiles in one launch."""
    if not sizes.tiled:
        return True
    if flop < _MIN_LARGE_FLOPS:
        return False
    target, table, elem = device.engine.target, device.engine.table, device.elem
    c, u = int(device.fronts.columns[front]), int(device.fronts.rows[front])
    lower = Operand(elem, int(device.leading[front]), 1, aligned_bytes=16)
    factor = CholeskyProblem(c, (), lower, lower, in_place=True)
    separate = best_of(cholesky_variants(factor, target, table, sizes), target).estimate
    if u:
        solve = SolveProblem(c, u, (), lower, Operand(elem, 1, lower.row, aligned_bytes=16))
        separate += best_of(solve_variants(solve, target, table, None, sizes), target).estimate
        separate += estimates.products_seconds(u * (u + 1) * c, factor, target)
    return separate < estimates.tiles_seconds(factor, flop, target)


def _small(device: DeviceFronts, which: _Table | _Int64, shape: tuple[int, int, int]) -> Step:
    spec = small_spec(device.elem, device.engine.target, shape)
    plan = FrontsPlan(
        device=device, spec=spec, name="small", constants={},
        operands=["values", "factor", "arena", "report"], groups=len(which), size=shape[1],
        further={"which": which.astype(np.int32)}, flop=flop_of(device, which),
    )  # fmt: skip
    return Step(plan, (VALUES, FACTOR, ARENA, PIVOT_STATUS))


def _assemble(device: DeviceFronts, tiles: _Table) -> Step:
    spec = assemble_spec(device.elem, device.engine.target)
    plan = FrontsPlan(
        device=device, spec=spec, name="assemble", constants={},
        operands=["values", "factor", "arena"], groups=len(tiles), size=_GROUP,
        further={"tiles": tiles, **cuts(device.fronts, tiles)},
    )  # fmt: skip
    return Step(plan, (VALUES, FACTOR, ARENA))


def _tiles(device: DeviceFronts, which: _Int64, tiles: _Table) -> list[Step]:
    fronts, target, elem = device.fronts, device.engine.target, device.elem
    is_own = tiles[:, 1] < -(-fronts.columns[tiles[:, 0]] // TILE)
    own_tiles, update_tiles = int(is_own.sum()), int((~is_own).sum())
    tables = {"tiles": device.engine.upload(tiles)}
    constants = {"groups": own_tiles, "all_flags": len(tiles)}
    c, u = fronts.columns[which], fronts.rows[which]
    updates = int((c * u * (u + 1)).sum()) * elem.components**2
    plan = FrontsPlan(
        device=device, spec=tiles_spec(elem, target), name="tiles", constants=constants,
        operands=["factor", "report"], groups=own_tiles, size=_GROUP, further=tables,
        flop=flop_of(device, which) - updates, counters=2 + len(tiles),
    )  # fmt: skip
    steps = [Step(plan, (FACTOR, PIVOT_STATUS))]
    if update_tiles:
        spec = update_spec(elem, target)
        plan = FrontsPlan(
            device=device, spec=spec, name="update", constants={"first_tile": own_tiles},
            operands=["factor", "arena"], groups=update_tiles, size=_GROUP, further=tables,
            flop=updates,
        )  # fmt: skip
        steps.append(Step(plan, (FACTOR, ARENA)))
    return steps


def small_spec(elem: Element, target: Target, shape: tuple[int, int, int]) -> Specialization:
    """Render the kernel of small fronts of one class."""
    size, lanes, across = shape
    parameters = [
        *tables("int", "which"),
        *fronts_tables(),
        *read(elem, "values", restrict=True),
        *written(elem, "factor", restrict=True),
        *written(elem, "arena"),
        *operand("long", "report", writes=True),
    ]
    return specialize(
        "fronts/small", target, {"small": parameters},
        e=elem, size=size, lanes=lanes, across=across,
    )  # fmt: skip


def assemble_spec(elem: Element, target: Target) -> Specialization:
    """Render the kernel that assembles tiles."""
    local_bytes = min(target.local_mem_size, _MAX_LOCAL_BYTES)
    height = 64 if 64 * 65 * elem.itemsize <= local_bytes else 32
    parameters = [
        *tables("int4", "tiles"),
        *tables("int", "cut_start", "cuts"),
        *fronts_tables(),
        *read(elem, "values", restrict=True),
        *written(elem, "factor", restrict=True),
        *written(elem, "arena"),
    ]
    return specialize("fronts/assemble", target, {"assemble": parameters}, e=elem, height=height)


def tiles_spec(elem: Element, target: Target) -> Specialization:
    """Render the kernel that factorises own columns by tiles in one launch."""
    report = buffer("long", "report", writes=True, shared=True, restrict=False)
    parameters = [
        *scalars("uint", "groups", "all_flags"),
        *tables("int4", "tiles"),
        *fronts_tables(),
        *written(elem, "factor", restrict=True),
        report,
        *scalars("long", "report_offset"),
        COUNTERS,
    ]
    return _spec("tiles", parameters, elem, target, adds=False)


def update_spec(elem: Element, target: Target) -> Specialization:
    """Render the kernel of updates by tiles."""
    parameters = [
        *scalars("int", "first_tile"),
        *tables("int4", "tiles"),
        *fronts_tables(),
        *written(elem, "factor", "arena", restrict=True),
    ]
    return _spec("update", parameters, elem, target, adds=True)


def _spec(
    name: str, parameters: Sequence[Parameter], elem: Element, target: Target, adds: bool
) -> Specialization:
    return specialize(
        f"fronts/{name}",
        target,
        {name: parameters},
        e=elem,
        problem=ElementOf(elem),
        factorise=True,
        in_fronts=True,
        paired=False,
        panels=panels(elem, target),
        adds=adds,
        separate=False,
        unit=False,
        conj=elem.complex,
        p_along=True,
        q_along=True,
        by_columns=True,
        item_rows=4 if elem.complex else 8,
        mma=on_matrix_units(elem, target),
    )
