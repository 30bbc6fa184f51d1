"""Tiles of SIMD units, by shape class: how k is cut, and what they are estimated to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.problem import GemmProblem, step
from portable_gpu.ops.gemm.tiled.policy import SHAPE_CLASSES, GemmPolicy, value_bytes, value_words
from portable_gpu.ops.gemm.tiling import WORKSPACE, Tiling
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import TuningTable

_LEAST_DEPTH = 128  # of a part
# The largest k for which columns are interleaved where rows of C are aligned for pairs; for single
# elements.
_SHALLOW, _MODERATE = 64, 400
_MOST_ROUNDS = 4  # of parts on a compute unit: no more of some tiles are resident
_PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True)
class TileCosts(Figures):
    """The costs of tiles; the unit of time is a multiply-add of a compute unit in the large tile.

    Attributes:
        latency: The time to load a tile to local memory.
        alone: The part of the time that is lost if a compute unit runs only four sub-groups.
        cut: The factor of the time of a kernel with split k, which needs more registers.
        shallow: The factor of the time if panels have half the depth, to save registers.
        sum: The time to write and read a partial sum.
        turned: The factor of the time if the rows of the computed product (C, or C' = B' A') are
            not the direction in which C is contiguous.
        efficiency: The rate of the tiles of each shape class, divided by that of the large tile.
        start: Seconds of a product with very few steps.
        group: Seconds from the end of a group to the start of the next one.
        stores: The time to write elements of C, divided by that to read them.
        item_store: Seconds of a store of a work-item, one after the other.
        gathered: The times of an operand with a reader: of a ``load`` of adjacent elements; and of
            each ``place`` that is checked for a load, for which a work-item waits if neighbouring
            work-items load single elements of different rows.
        unaligned: The factors of ``stores`` if rows of C are not aligned for vectors: for pairs;
            and, times the bytes of an element, for single elements and for interleaved columns.
    """

    latency: float
    alone: float
    cut: float
    shallow: float
    sum: float
    turned: float
    efficiency: Mapping[str, float]
    start: float
    group: float
    stores: float
    item_store: float
    gathered: Mapping[str, float]
    unaligned: Mapping[str, float]


def estimates(
    problem: GemmProblem, target: Target, table: TuningTable
) -> Iterator[tuple[float, Tiling]]:
    """Yield all tilings (shape classes, orientations, splits of k) with their seconds.

    A step of k takes a compute unit the time of the area of its groups' tiles, divided by the
    efficiency of the shape class; or the latency of loading a tile.  The two overlap, and if they
    are about equal, the step takes longer than either.  Smaller tiles are yielded before larger
    ones.
    """
    p, units = problem, target.compute_units
    costs = TileCosts.of("tiles", target)
    # ``slow`` is the cost of a multiply-add, in those of float32.
    device, slow = DeviceCosts.of("device", target), multiply_adds(p.compute)
    # Rows of the computed product should be the direction in which C is contiguous.
    is_row_major = step(p.c.col, p.n) <= step(p.c.row, p.m)
    tried: list[GemmPolicy] = []
    for shape_class in SHAPE_CLASSES:
        default = GemmPolicy.for_shape_class(target, p.compute, shape_class)
        row = table.choose("gemm", GemmPolicy, target, p.compute, shape_class, default)
        policy = row.policy
        if policy in tried:
            continue
        tried.append(policy)
        latency = costs.latency / (policy.tile_k * value_words(p.compute) * slow)
        time_of = partial(_time_of_groups, policy, target, p.compute, costs.alone)
        for transposed in (False, True):
            computed = p.transpose() if transposed else p
            policy, stores, width = _stored(row.policy, computed, costs)
            moving = p.moving(device, units, stores)
            groups = p.batch_size * computed.tiles(policy.tile_m, policy.tile_n)
            loads, waiting = _gathered(computed, policy, costs)
            work = policy.tile_m * policy.tile_n / costs.efficiency[shape_class] + loads
            orientation = 1.0 if transposed != is_row_major else costs.turned
            for splits, unsplit in _splits_of_k(p, policy, groups, units):
                used = policy.at_edges(target, p.compute, p.k, splits)
                # Groups of split tiles follow each other on a unit in ``rounds``.
                rounds, steps = -(-(groups - unsplit) * splits // units), -(-p.k // splits)
                if splits == 1:
                    rounds = _rounds(groups, units, policy.resident(target, p.compute))
                busy = work * (steps * time_of(rounds) + p.k * time_of(unsplit // units))
                sharing = max(1.0, rounds / policy.resident(target, p.compute))
                waits = (latency + waiting * sharing / slow) * (p.k if unsplit else steps)
                time = orientation * ((busy**3 + waits**3) ** (1 / 3) + 0.01 * busy)
                time *= costs.shallow if used != policy else costs.cut if splits > 1 else 1.0
                if splits > 1:
                    sums = (splits + rounds) * policy.tile_m * policy.tile_n
                    time += costs.sum * sums * value_words(p.compute)
                tiling = Tiling(
                    path="tiled" if splits == 1 else "split-k",
                    policy=used,
                    splits=splits,
                    unsplit=unsplit,
                    transposed=transposed,
                    shape_class=shape_class,
                    origin=row.origin + (", panels of half the depth" if used != policy else ""),
                    why=f"{unsplit + (groups - unsplit) * splits} groups on {units} compute units: "
                    "the least estimate",
                    evidence=row.evidence,
                )
                computing = time * slow / device.multiply_adds
                at_once = units * used.resident(target, p.compute)
                turns = -(-(unsplit + (groups - unsplit) * splits) // at_once)
                storing = turns * costs.item_store * policy.item_m * policy.item_n / width
                seconds = overlapped(computing + storing, moving) + costs.start
                seconds += (turns - 1) * costs.group
                yield seconds, tiling.fit(p.k)


def _gathered(p: GemmProblem, policy: GemmPolicy, costs: TileCosts) -> tuple[float, float]:
    """Return the work of a group, and the wait of a work-item, for the readers of a step of k."""
    work = waits = 0.0
    for reader, extent in ((p.a.reader, policy.tile_m), (p.b.reader, policy.tile_n)):
        if reader is not None:
            loads = extent / min(reader.width, policy.vector)
            work += costs.gathered["load"] * loads
            if reader.along == "s" and reader.width == 1:
                waits += costs.gathered["place"] * reader.places * loads / policy.group_size
    return work, waits


def least_seconds(problem: GemmProblem, target: Target) -> float:
    """Return a lower bound of :func:`estimates`: all compute units multiply at the highest rate."""
    p, costs, device = problem, TileCosts.of("tiles", target), DeviceCosts.of("device", target)
    products = p.batch_size * p.area * p.k * multiply_adds(p.compute)
    rate = device.multiply_adds * target.compute_units * max(costs.efficiency.values())
    return products / rate * min(1.0, costs.cut, costs.shallow, costs.turned)


def _stored(policy: GemmPolicy, p: GemmProblem, costs: TileCosts) -> tuple[GemmPolicy, float, int]:
    """Return the policy with the best order of stores, their cost, and the elements of each.

    The cost is the time of a store relative to a read.

    If rows of C are not aligned, or C has a reader, each work-item would store single elements of
    several adjacent columns.  If stores are much of the work, columns are interleaved, so that
    adjacent work-items store adjacent elements.
    """
    c, stores, size = p.c, costs.stores, p.c.elem.itemsize
    if c.elem.complex:
        return policy, stores, 1
    by_reader = c.reader is not None
    is_contiguous = c.col == 1
    if c.reader is not None and c.reader.side == "col":
        is_contiguous = c.reader.strides[-1] == 1
    if is_contiguous and not by_reader and c.elem.storage == p.compute.real:
        if _is_aligned(p, policy.vector):
            return policy, stores, policy.vector
        if policy.vector > 2 and _is_aligned(p, 2) and p.k > _SHALLOW:
            return policy, stores * costs.unaligned["pairs"], 2
    order = "elements"
    if is_contiguous and p.k <= _MODERATE:
        policy, order = replace(policy, interleave=True), "interleaved"
    return policy, stores * max(1.0, costs.unaligned[order] / size), 1


def _is_aligned(p: GemmProblem, width: int) -> bool:
    """Whether each row of C consists of aligned vectors."""
    return p.n % width == 0 and p.c.aligned_bytes % (width * p.c.elem.itemsize) == 0


#: Work-items that share an element of the direct path, where elements are few.
LANES = 16
#: Steps of k in an iteration of the direct path.
_STEPS = 8


def direct_estimates(problem: GemmProblem, target: Target) -> Iterator[tuple[float, Tiling]]:
    """Yield the tilings with one or several work-items for each element of C, and their seconds."""
    if not problem.k:
        yield 0.0, Tiling("direct", why="k is 0: nothing is multiplied")
        return
    why = "a work-item for each element of C: too little work for tiles"
    yield _direct_seconds(problem, target, 1), Tiling("direct", why=why)
    if problem.compute.floating and problem.k > LANES <= target.subgroup_size:
        why = f"{LANES} work-items for each element of C: they are few, and k is long"
        tiling = Tiling("direct", splits=LANES, why=why)
        yield _direct_seconds(problem, target, LANES), tiling


def _direct_seconds(problem: GemmProblem, target: Target, lanes: int) -> float:
    p, units = problem, target.compute_units
    device, costs = DeviceCosts.of("device", target), DirectCosts.of("direct", target)
    # The last iteration checks each step, so it takes as long as a full one.
    products = p.batch_size * p.area * -(-p.k // _STEPS) * _STEPS
    rounds = -(-p.batch_size * p.m * p.n * lanes // (units * costs.resident))
    loads = _lines(p, target.subgroup_size, lanes) * costs.line
    per_product = multiply_adds(p.compute) / (device.multiply_adds * costs.efficiency)
    busy = products * (per_product + loads / target.subgroup_size) / units
    busy += p.batch_size * p.area * lanes * costs.item / units
    step = costs.step * (costs.wide if value_words(p.compute) > 1 else 1.0)
    waits = rounds * (-(-p.k // lanes) * step + (costs.meeting if lanes > 1 else 0.0))
    return overlapped(overlapped(busy, waits), p.moving(device, units))


def _lines(problem: GemmProblem, subgroup: int, lanes: int) -> float:
    """Return the number of memory lines that a sub-group reads from A and B in a step of k."""
    p, elements = problem, subgroup // lanes
    columns = min(elements, p.n)
    rows = elements // columns
    a = (1 if p.a.row == 1 else rows) * (1 if p.a.col == 1 else lanes)
    b = (1 if p.b.col == 1 else columns) * (1 if p.b.row == 1 else lanes)
    return a + b


@dataclass(frozen=True)
class DirectCosts(Figures):
    """The seconds of a kernel with one work-item for each element of C.

    Attributes:
        step: Seconds of a step of k.
        wide: The factor of the seconds of a step, for values of more than 32 bits.
        meeting: Seconds to add the sums of the lanes of an element.
        line: Seconds of a compute unit for each line of memory that a load reads.
        item: Seconds of a compute unit for the places that a work-item reads and writes.
        resident: The number of work-items that a compute unit runs at the same time.
        efficiency: The rate if all units are busy, divided by that of the best tiles.
    """

    step: float
    wide: float
    meeting: float
    line: float
    item: float
    resident: int
    efficiency: float


def _time_of_groups(
    policy: GemmPolicy, target: Target, elem: Element, alone: float, groups: int
) -> float:
    """Return the time of ``groups`` on a compute unit, in units of a group at the full rate.

    The fewer groups are resident at the same time, the less of their latency is hidden.
    """
    resident, lost = policy.resident(target, elem), alone * 4 * target.subgroup_size
    rounds = -(-groups // resident)
    return groups + rounds * lost / policy.group_size


def _rounds(groups: int, units: int, most: int) -> int:
    """The number of groups, in whole tiles, of the compute unit that has most of them.

    At first each unit gets one, then each another.  Those that run side by side end together, and
    so the groups after them are given out as many at a time.
    """
    full, rest = divmod(groups, units * most)
    return full * most + min(most, rest) if full else -(-groups // units)


def _splits_of_k(
    problem: GemmProblem, policy: GemmPolicy, groups: int, units: int
) -> Iterator[tuple[int, int]]:
    """Ways to split k, ``(splits, unsplit)``, that leave each part deep.

    Of one product either all tiles are split, or those beyond whole rounds of the compute units.
    Sums of less than 32 bits are not left for other groups: each would take a register of its own.
    """
    yield 1, 0
    if value_bytes(problem.compute) < 4:
        return
    tile = policy.tile_m * policy.tile_n * value_bytes(problem.compute)
    full = groups // units * units if problem.batch_size == 1 and groups % units else 0
    for splits in _PARTS:
        if problem.k < splits * max(_LEAST_DEPTH, 8 * policy.tile_k):
            break
        for unsplit in {0, full}:
            split_tiles = groups - unsplit
            fits = split_tiles * splits * tile <= WORKSPACE * problem.batch_size
            if fits and split_tiles * splits <= _MOST_ROUNDS * units:
                yield splits, unsplit
