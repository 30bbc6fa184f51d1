"""Tiles of matrix units, by shape class: how k is cut, and what they are estimated to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from portable_gpu.ops.gemm.choice import WORKSPACE, GemmChoice
from portable_gpu.ops.gemm.matrix.format import SIDES, Format, format_of
from portable_gpu.ops.gemm.matrix.policy import (
    POLICIES,
    MatrixPolicy,
    WgmmaPolicy,
    classes_of,
    is_odd,
)
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import Costs, DeviceCosts, overlapped
from portable_gpu.tuning.table import Choice, TuningTable

MOST_BATCH = 65535


@dataclass(frozen=True)
class MatrixCosts(Costs):
    """What takes time, in steps of the large tile but for the first.

    Attributes:
        step: Seconds of a step of the large tile.
        fixed: Filling the stages, per tile of a group after the first.
        store: Storing a large tile.
        meeting: The parts of a tile wait for each other.
        sum: A part of a large tile, written and read.
        efficiency: Of the large tile's rate, that the tiles of each shape class reach.
        gather: An element that is copied by itself.
        copy: A step of a tile whose products take next to no time.
        outside: A line of zeros, beyond a matrix, that the copy engine brings.
        start: Seconds of a product of next to no steps.
        stores: How many times as long C's elements take to write as to read.
    """

    step: float
    fixed: float
    store: float
    meeting: float
    sum: float
    efficiency: Mapping[str, float]
    gather: float
    copy: float
    outside: float
    start: float
    stores: float


def estimates(
    problem: GemmProblem, target: Target, table: TuningTable
) -> Iterator[tuple[float, GemmChoice]]:
    """Every class of tiles and cut of k, with its seconds; none where matrix units do not apply."""
    p, form = problem, format_of(problem, target)
    if form is None or p.k == 0 or p.batch_size > MOST_BATCH:
        return
    kernel = form.kernel
    largest = 128 * 256 if kernel == "wgmma" else 128 * 128
    costs = MatrixCosts.of(kernel if form.parts == 1 else f"{kernel} of pieces", target)
    device = DeviceCosts.of("device", target)
    moving = p.moving(device, target.compute_units, costs.stores)
    for shape_class, row in fitting(p, form, target, table):
        efficiency = costs.efficiency[shape_class]
        transposed = form.transposes(p, is_odd(row.policy))
        computed = p.transpose() if transposed else p
        for policy, gathered in _ways_of_copying(row.policy, computed, form):
            tiles = p.batch_size * computed.tiles(policy.tile_m, policy.tile_n)
            steps = -(-p.k // form.depth)
            area = policy.tile_m * policy.tile_n / largest
            size = policy.tile_m * policy.tile_n
            copying = costs.copy + costs.outside * _lines_outside(policy, computed, form)
            step = max(area / efficiency * form.work, copying)
            step = max(step, costs.gather * gathered * form.depth)
            for cut in _cuts(p, policy, steps, tiles, target, kernel):
                choice = GemmChoice(
                    path=f"{kernel}, split-k" if cut.is_cut else kernel,
                    policy=policy,
                    splits=cut.splits,
                    whole=cut.whole,
                    shares=cut.shares,
                    transposed=transposed,
                    gather=gathered > 0,
                    shape_class=shape_class,
                    origin=row.origin,
                    why=f"{cut.groups(tiles)} groups on {target.compute_units} compute units with "
                    "matrix units: the least estimate; checked on the device before the first use",
                    evidence=row.evidence,
                )
                time = _steps_of(cut, tiles, steps, step, area, costs, target.compute_units)
                yield overlapped(time * costs.step, moving) + costs.start, choice


@dataclass(frozen=True)
class Cut:
    """How k is cut: see :class:`GemmChoice`."""

    splits: int = 1
    whole: int = 0
    shares: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether parts of tiles meet."""
        return self.splits > 1 or self.shares > 0

    def groups(self, tiles: int) -> int:
        """Groups, or tiles of persistent ones."""
        return self.shares or self.whole + (tiles - self.whole) * self.splits


def _steps_of(
    cut: Cut, tiles: int, steps: int, step: float, area: float, costs: MatrixCosts, units: int
) -> float:
    """What a product takes, in steps of the large tile."""
    if cut.shares:
        beside = -(-cut.shares // units)  # groups of a compute unit
        share = (tiles - cut.whole) * steps / cut.shares
        first = cut.whole // cut.shares
        each = first * (step * steps + costs.store * area + costs.fixed)
        parts = -(-steps // share)
        each += step * -(-share // 1) + costs.store * area + costs.sum * area * (1 + parts)
        return beside * each + costs.meeting
    turns = -(-(tiles - cut.whole) * cut.splits // units)
    first = cut.whole // units  # turns of whole tiles
    time = turns * (step * -(-steps // cut.splits) + costs.store * area)
    time += first * (step * steps + costs.store * area)
    time += costs.fixed * (first + turns - 1)
    if cut.splits > 1:
        time += costs.meeting + costs.sum * area * (cut.splits + turns)
    return time


def _lines_outside(policy: MatrixPolicy, computed: GemmProblem, form: Format) -> float:
    """Lines of a tile, in the mean, that the copy engine fills with zeros: beyond the matrices.

    A single tile's boxes have no more lines than there are, unless k runs across them.
    """
    if not (isinstance(policy, WgmmaPolicy) and policy.bulk):
        return 0.0
    extents, tiles = (computed.m, computed.n), (policy.tile_m, policy.tile_n)
    return sum(
        tile - extent / -(-extent // tile)
        for side, extent, tile in zip(SIDES, extents, tiles, strict=True)
        if extent > tile or form.layout(computed, side, bulk=True).across
    )


def _ways_of_copying(
    policy: MatrixPolicy, computed: GemmProblem, form: Format
) -> Iterator[tuple[MatrixPolicy, int]]:
    """The policy with what has to be repacked; and without, where that can be gathered.

    The numbers are of the rows of A and columns of B, in a tile, that are gathered.
    """
    yield policy, 0
    a, b = (form.layout(computed, side, gather=True) for side in SIDES)
    gathered = policy.tile_m * a.gathered + policy.tile_n * b.gathered
    by_items = replace(policy, bulk=False) if isinstance(policy, WgmmaPolicy) else policy
    if gathered and takes(by_items, computed, form, gather=True):
        yield by_items, gathered


def takes(policy: MatrixPolicy, computed: GemmProblem, form: Format, gather: bool = False) -> bool:
    """Whether tiles can take B as it comes: narrow ones have no lines across k.

    Args:
        policy: Of the tiles.
        computed: The problem, the way round in which it is computed.
        form: What the matrix units are given.
        gather: Whether what is off the grid is copied by elements.
    """
    if not (isinstance(policy, WgmmaPolicy) and is_odd(policy)):
        return True
    return not form.layout(computed, "b", policy.bulk, gather).across


@dataclass(frozen=True)
class RepackCosts(Costs):
    """What a first pass costs beside its traffic.

    Attributes:
        start: Seconds.
    """

    start: float


def repack_seconds(nbytes: list[int], target: Target) -> float:
    """Of first passes that move so many bytes each."""
    device, costs = DeviceCosts.of("device", target), RepackCosts.of("repack", target)
    return sum(costs.start + n / (device.bandwidth * target.compute_units) for n in nbytes)


def fitting(
    problem: GemmProblem, form: Format, target: Target, table: TuningTable
) -> Iterator[tuple[str, Choice[MatrixPolicy]]]:
    """The kinds of product that have policies which fit the target, and their rows of the table.

    Raises:
        PolicyError: A row's stages do not hold whole steps of a value's pieces.
    """
    kind = POLICIES[form.kernel][0]
    name = f"gemm_{form.kernel}_split" if form.parts > 1 else f"gemm_{form.kernel}"
    longest = max(problem.m, problem.n, form.parts * problem.k)
    for shape_class in classes_of(form.kernel, form.parts):
        default = kind.for_shape_class(shape_class, parts=form.parts)
        row = table.choose(name, kind, target, form.elem, shape_class, default)
        policy, origin = row.policy, row.origin
        if isinstance(policy, WgmmaPolicy):
            policy.check_pieces(form.parts)
            policy = policy.suited(target, longest)
            if policy != row.policy:
                origin += ", copied by work-items"
            narrow = is_odd(policy)
            computed = problem.transpose() if form.transposes(problem, narrow) else problem
            if form.through_registers(computed, policy.bulk) and not policy.has_room_for_a:
                continue
            if (narrow and form.kind == "tf32") or not takes(policy, computed, form):
                continue  # of tf32 nobody has timed narrow tiles
        if all(policy.limits(target, form.elem).values()):
            yield shape_class, replace(row, policy=policy, origin=origin)


def _cuts(
    p: GemmProblem, policy: MatrixPolicy, steps: int, tiles: int, target: Target, kernel: str
) -> Iterator[Cut]:
    """Ways to cut k: of all tiles, or of those beyond what fills the compute units some times."""
    units, size = target.compute_units, policy.tile_m * policy.tile_n
    if kernel == "wgmma":
        yield Cut()
        for shares, whole in _shares(policy, steps, tiles, target):
            if 4 * shares * size <= WORKSPACE:
                yield Cut(shares=shares, whole=whole)
        return
    elements = p.batch_size * p.m * p.n
    for splits in _splits(steps, tiles, elements, units):
        yield Cut(splits)
    whole = tiles // units * units
    if kernel == "mma" and p.batch_size == 1 and 0 < whole < tiles:
        left = tiles - whole
        for splits in _splits(steps, left, left * size, units)[1:]:
            yield Cut(splits, whole)


def _shares(
    policy: MatrixPolicy, steps: int, tiles: int, target: Target
) -> Iterator[tuple[int, int]]:
    """How many groups share the steps of tiles, and how many tiles stay whole before these.

    Some groups for each tile; or all that run at a time, one or more a compute unit.
    """
    running = policy.groups(target)
    for parts in range(2, steps // _LEAST_SHARE + 1):
        if parts * tiles > running:
            break
        yield parts * tiles, 0
    for shares in range(target.compute_units, running + 1, target.compute_units):
        if tiles % shares and tiles * steps >= _LEAST_SHARE * shares:
            yield shares, max(0, tiles // shares - 1) * shares


#: Steps of a share at least.
_LEAST_SHARE = 3


def _splits(steps: int, tiles: int, elements: int, units: int) -> list[int]:
    """Ways to cut k that give idle compute units work; none is empty."""
    found, splits = [1], 2
    while steps >= 4 * splits and tiles * splits <= 4 * units:
        if splits * elements * 4 > WORKSPACE:
            break
        if -(-steps // -(-steps // splits)) == splits:
            found.append(splits)
        splits += 1
    return found
