"""Tiles of matrix units, by shape class: how k is cut, and what they are estimated to take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from portable_gpu.ops.gemm.matrix.format import SIDES, MatrixFormat, OperandLayout, format_of
from portable_gpu.ops.gemm.matrix.parts import in_parts, sum_of_parts, takes_sum_of_parts
from portable_gpu.ops.gemm.matrix.policy import (
    CLASSES_OF_READERS,
    POLICIES,
    MatrixPolicy,
    WgmmaPolicy,
    classes_of,
    requires_k_along_b,
)
from portable_gpu.ops.gemm.matrix.stores import by_lines, has_unaligned_rows, with_row_scratch
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.tiling import WORKSPACE, Tiling
from portable_gpu.ops.reduce.variants import variants as sum_variants
from portable_gpu.ops.variant import best_of
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, overlapped
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import PolicyRow, TuningTable

MOST_BATCH = 65535
# Columns of tiles from which on ptxas spills 8 to 40 bytes where k is shared, operands are gathered
# and C is stored by warps.
_WIDE = 192


@dataclass(frozen=True)
class MatrixCosts(Figures):
    """The costs of tiles: factors, and times in steps of the large tile unless in seconds.

    Attributes:
        step: Seconds of a step of the large tile.
        fixed: The time to fill the stages: with ``wgmma`` for each tile of a group after the first
            one, otherwise for each large tile of a compute unit after the first one.
        store: The time to store a large tile.
        turned: The factor of the time to store a tile if rows of C are not contiguous, but columns
            are.
        meeting: The time that a tile waits until all its parts are computed.
        sum: The time to write and read a part of a large tile.
        efficiency: The rate of the tiles of each shape class, divided by that of the large tile.
        alone: The factor of that rate if a compute unit runs a single group; 1 if not named.
        gather: The time to copy a single element.
        window: The time of a compute unit to copy a line of 128 bytes for operands that have a
            reader.
        latency: The time from the request of a stage to its use; all stages are filled once in it.
        line: The time of a line of 128 bytes on the path from memory to the compute units, which
            all of them share.
        start: Seconds of a product with very few steps.
        stores: The time to write elements of C, divided by that to read them.
        by_lines, by_elements: The factors of the time to store rows of C that are not aligned, by
            warps and by elements.
    """

    step: float
    fixed: float
    store: float
    turned: float
    meeting: float
    sum: float
    efficiency: Mapping[str, float]
    alone: Mapping[str, float]
    gather: float
    window: float
    latency: float
    line: float
    start: float
    stores: float
    by_lines: float
    by_elements: float


@dataclass(frozen=True)
class Work:
    """The work of compute units for a product, in steps of the large tile.

    Attributes:
        tiles, steps: The number of tiles of all products, and of steps of a tile.
        product_steps: The number of steps of each product, if they differ.
        step: The time of a step of a tile without waiting.
        waiting: The latency of memory for a step of a tile, which other groups may hide.
        area: The area of a tile, divided by that of the large tile.
        storing: The time to store a tile.
        lines: The number of lines that are copied to local memory in a step of a tile.
        units, resident: The number of compute units, and of groups that run on each of them.
        running: The maximum number of groups.
    """

    tiles: int
    steps: int
    step: float
    waiting: float
    area: float
    storing: float
    lines: int
    units: int
    resident: int
    running: int
    product_steps: tuple[int, ...] = ()

    def most_steps(self, groups: int) -> int:
        """Return the steps of the busiest of ``groups`` groups if products differ."""
        of_tiles = np.repeat(self.product_steps, self.tiles // len(self.product_steps))
        turns = np.zeros((-(-self.tiles // groups), groups), np.int64)
        turns.flat[: self.tiles] = of_tiles
        turns[1::2] = turns[1::2, ::-1]
        return int(turns.sum(axis=0).max())

    @property
    def all_steps(self) -> float:
        """The steps of all tiles if products differ."""
        return self.tiles * sum(self.product_steps) / len(self.product_steps)


def estimates(
    problem: GemmProblem, target: Target, table: TuningTable
) -> Iterator[tuple[float, Tiling]]:
    """Yield all tilings with their seconds; none if matrix units cannot compute the problem."""
    p, form = problem, format_of(problem, target)
    if form is None or p.k == 0 or p.batch_size > MOST_BATCH:
        return
    kernel, units, products = form.kernel, target.compute_units, form.work
    largest = 128 * 256 if kernel == "wgmma" else 128 * 128
    costs = MatrixCosts.of(kernel if form.parts == 1 else f"{kernel} of pieces", target)
    device = DeviceCosts.of("device", target)
    moving = p.moving(device, units, costs.stores)
    transposes = cache(partial(form.transposes, p))
    gathering: dict[bool, list[OperandLayout]] = {}
    for shape_class, row in fitting(p, form, target, table):
        efficiency = costs.efficiency[shape_class]
        transposed = transposes(requires_k_along_b(row.policy))
        computed = p.transpose() if transposed else p
        if transposed not in gathering:
            layouts = [form.layout(computed, side, gather=True) for side in SIDES]
            gathering[transposed] = layouts
        for policy, gathered in _copies(row.policy, computed, form, gathering[transposed]):
            tile_m, tile_n, running = policy.tile_m, policy.tile_n, policy.groups(target)
            area = tile_m * tile_n / largest
            step = area / efficiency * products
            read = tile_m + tile_n if p.a.reader or p.b.reader else 0
            work = Work(
                tiles=p.batch_size * computed.tiles(tile_m, tile_n),
                steps=-(-p.k // form.depth),
                product_steps=_steps_of_parts(p, form) if p.k_parts else (),
                step=max(step, costs.gather * gathered * form.depth, costs.window * read),
                waiting=costs.latency / policy.stages if isinstance(policy, WgmmaPolicy) else 0.0,
                area=area,
                storing=costs.store * area * _storing(computed, policy, target, costs),
                lines=min(computed.m, tile_m) + min(computed.n, tile_n),
                units=units,
                resident=max(1, running // units) if kernel == "wgmma" else 1,
                running=running,
            )
            make = partial(
                _tiling, kernel, policy, row, shape_class, transposed, gathered > 0, work
            )
            for tiling in _cuts(make, policy, computed, work, form, gathered > 0):
                if tiling.shares and not target.forward_progress:
                    continue  # groups that share a tile wait for each other
                if isinstance(policy, WgmmaPolicy) and tiling.splits > 1:
                    yield _of_parts(p, tiling, form, work, target, table, costs), tiling
                    continue
                if kernel == "wgmma":
                    time, after = _of_warpgroups(tiling, work, costs)
                else:
                    alone = costs.alone.get(shape_class, 1.0)
                    time, after = _of_tiles(tiling, work, costs, alone), 0
                seconds = overlapped(time * costs.step, moving) + after * costs.step + costs.start
                yield seconds, tiling


def _tiling(
    kernel: str,
    policy: MatrixPolicy,
    row: PolicyRow[MatrixPolicy],
    shape_class: str,
    transposed: bool,
    gather: bool,
    work: Work,
    splits: int = 1,
    unsplit: int = 0,
    shares: int = 0,
    lanes: int = 1,
    band: int = 0,
) -> Tiling:
    """Return a tiling; ``band`` replaces that of the policy, unless it is 0."""
    groups = shares or unsplit + (work.tiles - unsplit) * splits
    return Tiling(
        path=f"{kernel}, split-k" if splits > 1 or shares else kernel,
        policy=replace(policy, band=band) if band else policy,
        splits=splits,
        unsplit=unsplit,
        shares=shares,
        lanes=lanes,
        transposed=transposed,
        gather=gather,
        shape_class=shape_class,
        origin=row.origin,
        why=f"{groups} groups on {work.units} compute units with matrix units: the least "
        "estimate; checked on the device before the first use",
        evidence=row.evidence,
    )


def _storing(p: GemmProblem, policy: MatrixPolicy, target: Target, costs: MatrixCosts) -> float:
    """Return the time to store a tile of C, divided by that of one whose rows are aligned."""
    along_columns = p.c.col != 1
    if isinstance(policy, WgmmaPolicy) and has_unaligned_rows(
        p.transpose() if along_columns else p
    ):
        return costs.by_lines if by_lines(p, policy, target) else costs.by_elements
    return costs.turned if along_columns else 1.0


def _of_warpgroups(cut: Tiling, work: Work, costs: MatrixCosts) -> tuple[float, float]:
    """Return the times of persistent groups: while they multiply, and after the last step."""
    w, storing = work, work.storing
    if cut.shares:
        resident, share = -(-cut.shares // w.units), (w.tiles - cut.unsplit) * w.steps / cut.shares
        first, step = cut.unsplit // cut.shares, max(resident * w.step, w.waiting)
        time = first * (step * w.steps + resident * storing + costs.fixed) + step * -(-share // 1)
        # After whole tiles a group's share is longer than a tile, and its tile has one other part.
        parts = 1.0 if cut.unsplit else -(-w.steps // max(1.0, share)) - (cut.lanes == w.tiles)
        after = resident * (storing + costs.sum * w.area * (0.5 + parts)) + costs.meeting
    else:
        turns, waits = -(-w.tiles // w.units), -(-w.tiles // (w.units * w.resident))
        steps, waited = turns * w.steps, waits * w.steps
        if w.product_steps:
            steps, waited = w.most_steps(w.units), w.most_steps(w.units * w.resident)
        time = max(steps * w.step, waited * w.waiting) + (turns - 1) * (storing + costs.fixed)
        after = storing
    every = w.all_steps if w.product_steps else w.tiles * w.steps
    return overlapped(time, every * w.lines * costs.line), after


def _steps_of_parts(p: GemmProblem, form: MatrixFormat) -> tuple[int, ...]:
    """Return the steps of the products of parts of k."""
    return tuple(-(-length // form.depth) for length in p.k_parts)


def _of_parts(
    p: GemmProblem,
    cut: Tiling,
    form: MatrixFormat,
    work: Work,
    target: Target,
    table: TuningTable,
    costs: MatrixCosts,
) -> float:
    """Return the seconds of products of parts of k, and of the launch that adds them."""
    parts = in_parts(p, cut.splits, cut.transposed, form.depth)
    device = DeviceCosts.of("device", target)
    work = replace(
        work,
        tiles=work.tiles * cut.splits,
        product_steps=_steps_of_parts(parts, form),
    )
    time, after = _of_warpgroups(cut, work, costs)
    moving = parts.moving(device, target.compute_units, costs.stores)
    adding = best_of(sum_variants(sum_of_parts(p, parts), target, table), target)
    seconds = overlapped(time * costs.step, moving) + after * costs.step + costs.start
    return seconds + RepackCosts.of("repack", target).start + adding.estimate


def _of_tiles(cut: Tiling, work: Work, costs: MatrixCosts, alone: float) -> float:
    """Return the time of groups each of which computes one tile, or a part of one."""
    w = work
    turns = -(-(w.tiles - cut.unsplit) * cut.splits // w.units)
    first = cut.unsplit // w.units  # turns of whole tiles
    step = w.step / (alone if first + turns == 1 else 1.0)
    time = turns * (step * -(-w.steps // cut.splits) + w.storing)
    time += first * (step * w.steps + w.storing)
    time += costs.fixed * w.area * (first + turns - 1)
    if cut.splits > 1:
        time += costs.meeting + costs.sum * w.area * (cut.splits + turns)
    return time


def _copies(
    policy: MatrixPolicy,
    computed: GemmProblem,
    form: MatrixFormat,
    gathering: Sequence[OperandLayout],
) -> Iterator[tuple[MatrixPolicy, int]]:
    """Yield the policy with operands repacked if necessary, and then, if possible, gathered.

    With each policy the number of gathered rows of A and columns of B of a tile is yielded.
    """
    yield policy, 0
    a, b = gathering
    gathered = policy.tile_m * a.gathered + policy.tile_n * b.gathered
    by_items = replace(policy, bulk=False) if isinstance(policy, WgmmaPolicy) else policy
    if gathered and takes(by_items, computed, form, gather=True):
        yield by_items, gathered


def takes(
    policy: MatrixPolicy, computed: GemmProblem, form: MatrixFormat, gather: bool = False
) -> bool:
    """Whether a policy supports the layout of B: narrow tiles need k along the lines.

    Args:
        policy: The policy of the tiles.
        computed: The problem in the orientation in which it is computed.
        form: The format of the elements.
        gather: Whether operands that are not aligned are copied element by element.
    """
    if not isinstance(policy, WgmmaPolicy):
        return True
    if gather and policy.consumers > 2 and policy.tile_n < 128:
        return False  # 192 x 64 takes 1.27 of the time of 192 x 128
    if not requires_k_along_b(policy):
        return True
    return not form.layout(computed, "b", policy.bulk, gather).across


@dataclass(frozen=True)
class RepackCosts(Figures):
    """The costs of a first pass in addition to its traffic.

    Attributes:
        start: Seconds.
        rate: The bandwidth of a pass, divided by that of the memory.
    """

    start: float
    rate: float


def repack_seconds(nbytes: list[int], target: Target) -> float:
    """The seconds of first passes, given the bytes that each moves."""
    device, costs = DeviceCosts.of("device", target), RepackCosts.of("repack", target)
    bandwidth = costs.rate * device.bandwidth * target.compute_units
    return sum(costs.start + n / bandwidth for n in nbytes)


def fitting(
    problem: GemmProblem, form: MatrixFormat, target: Target, table: TuningTable
) -> Iterator[tuple[str, PolicyRow[MatrixPolicy]]]:
    """Yield the shape classes whose policies fit the target, and their rows of the table.

    Raises:
        PolicyError: A row's stages do not hold whole steps of a value's pieces.
    """
    transposes, parts = cache(partial(form.transposes, problem)), form.parts
    kind = POLICIES[form.kernel][0]
    name = f"gemm_{form.kernel}_split" if parts > 1 else f"gemm_{form.kernel}"
    extents = problem.m, problem.n, parts * problem.k
    by_boxes = not problem.has_readers and form.supports_parts(problem, bulk=True)
    longest = max(extents) if by_boxes else math.inf
    for shape_class in classes_of(form.kernel, parts):
        if shape_class in CLASSES_OF_READERS and not problem.has_readers:
            continue
        default = kind.for_shape_class(shape_class, parts=parts)
        row = table.choose(name, kind, target, form.elem, shape_class, default)
        policy, origin = row.policy, row.origin
        if isinstance(policy, WgmmaPolicy):
            policy.check_pieces(parts)
            policy = policy.with_supported_copies(target, longest)
            if policy != row.policy:
                origin += ", copied by work-items"
            narrow = requires_k_along_b(policy)
            computed = problem.transpose() if transposes(narrow) else problem
            if form.through_registers(computed, policy.bulk) and not policy.has_registers_for_a:
                continue
            if (narrow and form.kind == "tf32") or not takes(policy, computed, form):
                continue  # narrow tiles of tf32 were not timed
            if parts == 1:
                policy = with_row_scratch(policy, computed, target)
                if computed.has_readers and policy.blocks == 1 and not policy.bulk:
                    policy = _with_producers(policy, computed)
        if all(policy.limits(target, form.elem).values()):
            yield shape_class, replace(row, policy=policy, origin=origin)


def _with_producers(policy: WgmmaPolicy, p: GemmProblem) -> WgmmaPolicy:
    """Return the policy with two warpgroups that copy, unless registers are too few.

    They are faster if an operand has a reader and a consumer has one block.  Rows of C whose places
    are computed, and arrays of the epilogue, take some 16 registers more.
    """
    gathered = p.a.reader is not None or p.b.reader is not None
    two = replace(policy, producers=2)
    few = 48 if p.extras or p.c.reader is not None else 32
    fits = two.tile_n % (two.copiers // 8) == 0 and two.registers - two.sums >= few
    return two if gathered and fits else policy


def _cuts(
    make: Callable[..., Tiling],
    policy: MatrixPolicy,
    p: GemmProblem,
    work: Work,
    form: MatrixFormat,
    gathered: bool,
) -> Iterator[Tiling]:
    """Yield a tiling, and those that cut k: of all tiles, or of the last ones.

    Args:
        make: Makes a tiling, given its partition of k.
        policy: The policy of all.
        p: The problem in the orientation in which it is computed.
        work: The work of compute units.
        form: The format of the elements.
        gathered: Whether operands are copied element by element.
    """
    units, size, tiles, steps = work.units, policy.tile_m * policy.tile_n, work.tiles, work.steps
    yield make()
    if p.k_parts:
        return
    if isinstance(policy, WgmmaPolicy):
        if not shares_fit(policy, form):
            return
        if gathered and policy.tile_n >= _WIDE and has_unaligned_rows(p):
            return
        timed = form.elem.itemsize == 2 and form.parts == 1
        if _FEWEST_ADDED * tiles <= units * work.resident and takes_sum_of_parts(p):
            for splits in _numbers_of_parts(tiles, steps, p.m * p.n, units, work.resident):
                yield make(splits=splits)
        for cut in _shares(make, policy, p, work):
            # Shares of several tiles were not timed for tf32 and for pieces.
            if 4 * cut.shares * size <= WORKSPACE and (timed or cut.lanes == tiles):
                yield cut
        return
    for splits in _splits(steps, tiles, p.batch_size * p.m * p.n, units)[1:]:
        yield make(splits=splits)
    unsplit = tiles // units * units
    if form.kernel == "mma" and p.batch_size == 1 and 0 < unsplit < tiles:
        left = tiles - unsplit
        for splits in _splits(steps, left, left * size, units)[1:]:
            yield make(splits=splits, unsplit=unsplit)


def _numbers_of_parts(
    tiles: int, steps: int, elements: int, units: int, resident: int
) -> Iterator[int]:
    """Yield the numbers of parts of k with which all units have a group, or all that fit."""
    for groups in sorted({units, units * resident}):
        parts = min(groups // tiles, steps // _LEAST_SHARE)
        if parts >= _FEWEST_ADDED and 4 * parts * elements <= WORKSPACE:
            yield parts


def shares_fit(policy: WgmmaPolicy, form: MatrixFormat) -> bool:
    """Whether enough registers are left for groups that share steps of k.

    With 4-byte elements and 64 or fewer registers left, ptxas spills 16 to 32 bytes: for tf32 in
    tiles of 192 x 128 and 192 x 192, for values in pieces (tf32x3, bf16x6) in tiles of 128 x 128.
    """
    return form.elem.itemsize == 2 or policy.registers - policy.sums > 64


def _shares(
    make: Callable[..., Tiling], policy: MatrixPolicy, p: GemmProblem, work: Work
) -> Iterator[Tiling]:
    """Yield the tilings whose groups share the steps of tiles.

    Some groups for each tile; or one for each compute unit.  Then groups with the same share have
    the tiles of a row, or of a column, if these are few.
    """
    units, tiles, steps = work.units, work.tiles, work.steps
    rows, cols = -(-p.m // policy.tile_m), -(-p.n // policy.tile_n)
    for parts in range(2, steps // _LEAST_SHARE + 1):
        if parts * tiles > work.running:
            break
        if -(-steps // -(-steps // parts)) == parts:
            yield make(shares=parts * tiles, lanes=tiles)
    few = min(rows, cols)
    lanes = few if few <= _FEW and not p.triangle else 1
    shares = units // lanes * lanes
    if not shares:
        return
    unsplit = max(0, tiles // shares - 1) * shares
    few_turns = unsplit <= _MOST_TURNS * shares
    if few_turns and tiles % shares and (tiles - unsplit) * steps >= _LEAST_SHARE * shares:
        # Adjacent tiles must be those of a column, or, with bands of one row, those of a row.
        in_column = rows == lanes and rows <= policy.band
        band = 0 if in_column or lanes == 1 else 1
        yield make(shares=shares, unsplit=unsplit, lanes=lanes, band=band)


#: Parts that a second launch adds, at least: with five or seven it takes the time of shares, with
#: two 1.2 to 1.7 times as long.
_FEWEST_ADDED = 8
#: Steps of a share at least; tiles of a row, or of a column, that are worked on side by side; turns
#: of whole tiles before: with more (8192 float16, 14) there is next to nothing to gain.
_LEAST_SHARE, _FEW, _MOST_TURNS = 3, 12, 8


def _splits(steps: int, tiles: int, elements: int, units: int) -> list[int]:
    """Ways to cut k that give idle compute units work; none is empty."""
    result, splits = [1], 2
    while steps >= 4 * splits and tiles * splits <= 4 * units:
        if splits * elements * 4 > WORKSPACE:
            break
        if -(-steps // -(-steps // splits)) == splits:
            result.append(splits)
        splits += 1
    return result
