"""The choice of a shape for a pass: radices, numbers of a work-item, transforms of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import lcm, log2

import numpy as np

from portable_gpu.ops.fft.passes import Pass, Rows
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.radices import mirrored, spread
from portable_gpu.ops.fft.shape import GroupPlan, Layout, Stage
from portable_gpu.ops.fft.tables import largest_prime
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two, is_power_of_two
from portable_gpu.targets import Target

#: 32-bit words that local memory serves at once.
_BANKS = 32
#: Bytes of a run of rows that neighbours read at once, below which a side is staged, if there are
#: more than so many of it for each compute unit.  H200, us, not staged and staged, complex64: 20000
#: lines of 17 8.6 and 3.2, of 11 4.9 and 3.0, 8000 of 27 4.2 and 3.4, 4000 of 16 (0.5 MB) 2.57 and
#: 2.49, of 13 2.28 and 2.48; complex128: 20000 of 11 6.9 and 3.8, 4000 of 9 2.63 and 2.49.
_RUN, _STAGED = 64, 4096
#: And of results of real lines as complex ones of half their length, which run both ways.  H200:
#: 2048 of 8192 float32 in 43 us, two as one in 49; but 4096 of 4096 in 42.6 and 41.2, 65536 of 512
#: in 105 and 76.  Of few numbers, from which line on: one of 4096 3.3 and 4.1, 50 3.5 and 4.8, one
#: of 2048 3.0 and 3.1; but of 1024 4.1 and 2.7, of 128 3.6 and 2.4, 1000 of 128 4.3 and 2.9.
_LONG_RUN, _LONG_LINE = 2048, 2048
#: Words beside those of numbers that a work-item has in registers, by AMD's and NVIDIA's compilers;
#: and those of roots between two passes.  Odd radices take as many as numbers, and 4.
_PLACES, _PLACES_OF_ROOTS = 28, 20
#: Up to which prime that is said of: 37 complex64 numbers take 167 registers in all.
_SMALL_PRIMES = 13
#: Of a compute unit, each with registers for two sub-groups at the least.
_SIMDS = 4
#: Bytes that memory hands out at once; how many of the compute units should have a group, and how
#: many where runs of columns would be shorter than that.  H200, us, in runs of 16 and 32 bytes, in
#: pieces and runs: 287 columns of 2048 complex64 11.7 and 8.8, 301 of 512 4.9 and 3.5; 150 of 2048
#: complex128 12.0 and 6.9.  But 14 of 1873 complex64 in pieces 8.0, in runs 13.2.
_SECTOR, _BUSY, _FEW_COLUMNS = 32, 0.75, 0.35
#: Where a run begins anywhere in a sector it is twice as long, if groups are no larger than so much
#: of the largest.  H200, us, complex64: 40001 columns of 256 71.6 and 54.4, 80001 of 128 69.3 and
#: 54.4, 50001 of 100 30.7 and 24.9; complex128 20001 of 100 21.1 and 16.1; 100 x 100 x 100 float32
#: 10.9 and 10.0.
_LONG_RUNS = 0.5
#: The largest radix, and that of transforms which would have many stages by it: then a work-item
#: holds more numbers.  H200, complex64: 1024 x 16384 in 91 us, by 16 in 102; 2048 x 8192 in 76 and
#: 79; but 4096 x 4096 in 72 and 70.  In complex128 it was slower, 104 us and 96.
_RADIX, _LARGE_RADIX, _MANY_STAGES = 16, 32, 4
#: More work-items hold fewer numbers where there are so few for each compute unit (H200: 64 of 64
#: complex64 in 2.3 us, and 4.2), and in double precision where rows lie along the transform.
#: H200, complex128: 65536 x 256 in 133 us, by 16 in 141; 4096 x 4096 in 145 and 151; but across,
#: 256 x 256 x 256 in 434 and 412.
#: So do short lines: 64 complex64 in 68.3 us (by 16 69.1), 128 in 68.4 (70), real lines of 64 in
#: 70.6 (73.9), of 128 in 70.8 (73.8); but real ones of 16 in 44.7 (40.6), which one work-item has.
_SMALL_RADIX, _SMALL_ITEM, _FEW = 8, 13, 4096
_SHORT = 16, 256
#: Numbers of a work-item where butterflies are of large primes: as many as leave few lanes idle.
#: H200, complex64: 4096 x 4093 (31 x 12 x 11) by 132 work-items in 228 us, by 186 248; 4096 x 1531
#: (17 x 10 x 9) by 90 in 62, by 170 69, by 45 73.
_PRIME_ITEMS, _FULL = (40, 32), 0.8
#: Short cyclic convolutions by large primes wait for themselves where there are no more numbers for
#: each compute unit.  H200, complex64, us, cyclic and by a chirp: one of 239 = 1 + 17 x 14 3.9 and
#: 3.0, 1000 7.0 and 4.7, 3000 9.9 and 8.2; one of 103 4.2 and 2.8, of 139 5.4 and 3.1; 50 of 613
#: 5.4 and 4.2; but 20 of 4093 10.0 and 10.8, 64 9.3 and 11.2.
_LONE, _SHORT_PRIME = 4096, 1024
#: What a group of twice the size costs where it has several transforms, against lanes that idle.
#: H200, complex64: 500 (50 work-items each) by 1, 2 or 4 71.7, 75 and 73.7 us; 360 (36) by 1, 2 or
#: 4 89, 78 and 74; 101 (10) by 4, 8 or 16 58, 50 and 47; 257 (16) by 4, 8 or 16 51, 53 and 61.
_LARGE_GROUP = 0.08


def group_plan(
    run: Pass, policy: GroupFftPolicy, target: Target, group: int | None = None
) -> GroupPlan:
    """How groups make the transforms of a pass.

    As many slots as bring whole runs of lanes, and fill a group; fewer where local memory ends, or
    where compute units would have no group: as many then as a sector of memory holds, or one where
    both sides of few columns are read in pieces all the same.

    Args:
        run, policy, target: The pass, how, and for what device.
        group: Work-items of a group, where another pass of the launch asks for so many.
    """
    across = _across(run.source), _across(run.target)
    held = _held(run, any(across), policy, target)
    length = _stage_length(run, policy, target)
    items = _radices(run, length, *held[0], target)[1]
    if group or any(across):
        wanted = max(1, (group or policy.group) // items)
    else:
        wanted = _beside(items, policy, target)
    sides = zip((run.source, run.target), across, strict=True)
    wanted = max(wanted, *(_wanted(side, own, run, items, policy, target) for side, own in sides))
    slots = min(floor_power_of_two(wanted), ceil_power_of_two(-(-run.lanes // run.planes)))
    alone = not any(across) or (all(across) and not run.whole)
    sector = _SECTOR // (2 * run.real.itemsize)
    least = 1 if alone else sector
    while slots > least and slots * items > target.subgroup_size:
        small = 2 * slots * items <= target.max_work_group_size
        busy = _FEW_COLUMNS if any(across) and slots <= sector and small else _BUSY
        if run.count // (slots * run.planes) >= busy * target.compute_units:
            break
        slots //= 2
    while slots:
        for item, radix in held:
            plan = _plan(run, length, item, radix, target, slots, *across)
            if _fits(plan, run, target):
                return plan
        slots //= 2
    return plan


def _beside(items: int, policy: GroupFftPolicy, target: Target) -> int:
    """How many transforms of so many work-items a group makes.

    One of many work-items; else as many as fill a half to twice of the policy's group, by the lanes
    that idle and by the size.
    """
    if 2 * items >= policy.group:
        return max(1, policy.group // items)
    lanes = target.subgroup_size

    def worth(slots: int) -> float:
        group = slots * items
        idle = -(-group // lanes) * lanes / group
        return idle * (1 + _LARGE_GROUP * log2(group / lanes))

    powers = (1 << bit for bit in range(policy.group.bit_length() + 1))
    return min((s for s in powers if policy.group <= 2 * s * items <= 4 * policy.group), key=worth)


def group_plans(
    runs: Sequence[Pass], policy: GroupFftPolicy, target: Target
) -> tuple[GroupPlan, ...]:
    """Those of one pass, or of two that share a launch: with groups of one size, if they can be."""
    if len(runs) == 2 and (own := _own_plans(runs, policy, target)):
        return own
    plans = tuple(group_plan(run, policy, target) for run in runs)
    if len(runs) == 2 and any(
        is_alone(plan, run, target) for plan, run in zip(plans, runs, strict=True)
    ):
        policy = replace(policy, beside=max(1, policy.beside // 2))
        plans = tuple(group_plan(run, policy, target) for run in runs)
    for group in sorted({plan.group for plan in plans}, reverse=True):
        found = tuple(group_plan(run, policy, target, group) for run in runs)
        if {plan.group for plan in found} == {group}:
            return found
    return plans


def has_own_parts(runs: Sequence[Pass], plans: Sequence[GroupPlan]) -> bool:
    """Whether each group makes both passes of a part."""
    return len(runs) == 2 and all(
        groups(run, plan) == run.parts for run, plan in zip(runs, plans, strict=True)
    )


def _own_plans(
    runs: Sequence[Pass], policy: GroupFftPolicy, target: Target
) -> tuple[GroupPlan, ...] | None:
    """Those of two passes of which a group makes a whole part, if it can."""
    if any(run.count != run.parts * run.lanes for run in runs):
        return None
    shapes = []
    for run in runs:
        across = _across(run.source), _across(run.target)
        length = _stage_length(run, policy, target)
        item, radix = _held(run, any(across), policy, target)[0]
        shapes.append((length, item, radix, across, _radices(run, length, item, radix, target)[1]))
    step = lcm(*(items for *_, items in shapes))
    wanted = max(
        items * -(-run.lanes // run.planes) for run, (*_, items) in zip(runs, shapes, strict=True)
    )
    group = -(-wanted // step) * step
    if group > target.max_work_group_size:
        return None
    plans = tuple(
        _plan(run, length, item, radix, target, group // items, *across)
        for run, (length, item, radix, across, items) in zip(runs, shapes, strict=True)
    )
    return plans if all(map(_fits, plans, runs, [target] * 2)) else None


def _stage_length(run: Pass, policy: GroupFftPolicy, target: Target) -> int:
    """That of :class:`Reach`; of few numbers without large butterflies in a cyclic convolution."""
    reach = policy.reach
    if run.n < _SHORT_PRIME and run.count * run.n <= _LONE * target.compute_units:
        few = replace(reach, cyclic=min(reach.cyclic, _SMALL_PRIMES)).stage_length(run.n)
        if few <= reach.most:
            return few
    return reach.stage_length(run.n)


def groups(run: Pass, plan: GroupPlan) -> int:
    """How many work-groups a pass has."""
    return run.count // run.lanes * -(-run.lanes // (plan.slots * run.planes))


def _held(run: Pass, across: bool, policy: GroupFftPolicy, target: Target) -> list[tuple[int, int]]:
    """Numbers of a work-item and the largest radix: the best, then what there may be room for."""
    length = _stage_length(run, policy, target)
    found = [(policy.item, _RADIX), (2 * policy.item, _RADIX)]
    group = target.max_work_group_size
    if _SHORT[0] < length < _SHORT[1] and length == run.n and not across:
        return [(_SMALL_ITEM, _SMALL_RADIX), *found]
    if largest_prime(length) > _SMALL_PRIMES:
        lanes = target.subgroup_size
        for most in _PRIME_ITEMS:
            items = spread(length, most, _RADIX, group)[1]
            if items >= _FULL * -(-items // lanes) * lanes:
                return [(most, _RADIX), *found]
    if run.count * length <= _FEW * target.compute_units or (run.real.needs_fp64 and not across):
        found.insert(0, (_SMALL_ITEM, _SMALL_RADIX))
    elif len(spread(length, *found[0], group)[0]) >= _MANY_STAGES and not run.real.needs_fp64:
        found.insert(0, (max(policy.item, _LARGE_RADIX), _LARGE_RADIX))
    return found


def fills_unit(plan: GroupPlan, run: Pass, target: Target) -> bool:
    """Whether the numbers of a group are half of the registers of a compute unit."""
    words = 2 * plan.held * plan.group * run.real.itemsize // 4
    return words >= _SIMDS * target.subgroup_size * min(target.resident_registers, 254)


def is_alone(plan: GroupPlan, run: Pass, target: Target) -> bool:
    """Whether a compute unit has no registers for a second group."""
    words = 2 * plan.held * run.real.itemsize // 4 + 2 * _PLACES
    return plan.group * words > _SIMDS * target.subgroup_size * min(target.resident_registers, 254)


def _fits(plan: GroupPlan, run: Pass, target: Target) -> bool:
    """Whether a group of the plan has work-items, local memory and registers enough."""
    words = run.real.itemsize // 4
    odd = not is_power_of_two(*(stage.radix for stage in plan.stages))
    places = (
        _PLACES
        + (2 * plan.held + 4 if odd else 0)
        + (_PLACES_OF_ROOTS if run.whole or run.target.form == "split" else 0)
    )
    prime = max(largest_prime(stage.radix) for stage in plan.stages)
    if prime > _SMALL_PRIMES:
        places = _PLACES + 7 * prime // 4
    needed = words * (2 * plan.held + places)
    on_simd = -(-plan.group // (_SIMDS * target.subgroup_size))
    available = min(target.registers, 2 * target.resident_registers // on_simd)
    return (
        plan.group <= target.max_work_group_size
        and plan.local_numbers * run.real.itemsize <= target.static_local_mem
        and needed <= available
    )


def _wanted(
    side: Rows, across: bool, run: Pass, items: int, policy: GroupFftPolicy, target: Target
) -> int:
    """Slots that make whole runs of lanes; twice as long where they begin anywhere in a sector."""
    if not across:
        return 1
    slots = max(1, policy.beside * 2 // (side.side.components * run.planes))
    anywhere = side.row * side.side.components * run.real.itemsize % _SECTOR
    room = 2 * slots * items <= _LONG_RUNS * target.max_work_group_size
    return 2 * slots if anywhere and room else slots


def _plan(
    run: Pass,
    length: int,
    item: int,
    largest: int,
    target: Target,
    slots: int,
    source: bool,
    target_across: bool,
) -> GroupPlan:
    radices, items = _radices(run, length, item, largest, target)
    staged = []
    for side, across, radix in (
        (run.source, source, radices[0]), (run.target, target_across, radices[-1])
    ):  # fmt: skip
        turned = side.form == "half" and (len(radices) > 1 or length != run.n or bool(run.whole))
        short = not across and _is_short(run, min(items, length // radix), target)
        straight = side.form in ("packed", "split")
        staged.append(not straight and (turned or short or length < run.n))
    if len(radices) == 1 and source != target_across and not any(staged):
        staged[0] = True
    after = source if staged[1] else target_across
    before = after if staged[0] else source
    banks = _BANKS * 4 // run.real.itemsize
    rows = run.n
    if length > run.n:  # what butterflies of a chirp are given first, and want at the end
        rows = -(-radices[0] // 2) * (length // radices[0])
    layouts = [Layout(rows, slots, before and after, rows, 0)]
    layouts += _exchanged(radices, length, slots, items, (before, after), banks)
    if length != run.n:
        layouts += _exchanged(radices[::-1], length, slots, items, (after, after), banks)
    together = slots if before != after else min(slots, max(1, banks // items))
    natural, *own = _with_one_stride(layouts, banks, together)
    there = [natural, *own[: len(radices) - 1]]
    stages = _stages(radices, length, items, there, 0, 0, run.target.form == "split")
    back: tuple[Stage, ...] = ()
    if length != run.n:
        table = stages[-1].table + stages[-1].roots
        from_there = [natural, *own[len(radices) - 1 :]]
        back = _stages(radices[::-1], length, items, from_there, len(radices), table)

    def made(rounds: tuple[tuple[str, ...], ...]) -> GroupPlan:
        return GroupPlan(
            run.n,
            length,
            stages,
            back,
            items,
            slots,
            rounds,
            source,
            target_across,
            staged[0],
            staged[1],
            natural,
        )

    both = made((("re", "im"),))
    room = min(target.static_local_mem, target.local_mem_per_unit // 2)
    return both if both.local_numbers * run.real.itemsize <= room else made((("re",), ("im",)))


def _is_short(run: Pass, items: int, target: Target) -> bool:
    """Whether rows that neighbours have side by side go through local memory: there are many."""
    pair = 2 * run.real.itemsize
    few = run.count * run.n * pair <= _STAGED * target.compute_units
    return not few and items * pair < min(_RUN, run.n * pair)


def _stages(
    radices: tuple[int, ...],
    length: int,
    items: int,
    layouts: Sequence[Layout],
    number: int,
    table: int,
    split: bool = False,
) -> tuple[Stage, ...]:
    """Stages of one way, numbered from ``number`` on, whose roots begin at ``table``."""
    found: list[Stage] = []
    done = 1
    for k, (radix, layout) in enumerate(zip(radices, layouts, strict=True)):
        count = length // radix
        stage = Stage(
            number + k, radix, done, count, -(-count // items), table, layout,
            mirrored=split and 0 < k == len(radices) - 1,
        )  # fmt: skip
        found.append(stage)
        table += stage.roots
        done *= radix
    return tuple(found)


def _exchanged(
    radices: tuple[int, ...],
    length: int,
    slots: int,
    items: int,
    across: tuple[bool, bool],
    banks: int,
) -> list[Layout]:
    """Of what stages hand on; ``across``: whether neighbours go along slots before, and after."""
    before, after = across
    alone = items if 2 * items <= banks else banks  # the banks of a slot among others
    found, done = [], 1
    for number, radix in enumerate(radices[:-1], 1):
        beside = after and (before or number > 1)
        own = banks // slots if beside else banks if before != after else alone
        layout = _layout(length, slots, beside, done, radix, max(1, own))
        if not (beside or layout.even(length // radices[number])):
            layout = _even(length, slots, done, radices[number - 1 : number + 1], items, banks)
        found.append(layout)
        done *= radix
    return found


def _radices(
    run: Pass, length: int, most: int, largest: int, target: Target
) -> tuple[tuple[int, ...], int]:
    """Radices of the stages, and work-items of a transform."""
    if run.target.form == "split":
        found = mirrored(length, min(most, largest))
        assert found is not None, "such passes are not packed"
        return found
    return spread(length, most, largest, target.max_work_group_size)


def packed(run: Pass, policy: GroupFftPolicy, target: Target) -> Pass:
    """A pass of real lines as one of complex lines of half their length, where it is faster.

    Results go straight from registers to memory then, so work-items side by side have whole runs
    of them; or the numbers are few, and lines long, or so short that a work-item has each.
    """
    n, source, result = run.n, run.source, run.target
    forms = source.form, result.form, source.factor, result.factor
    whole = source.row == 1 and source.rows >= n and source.limit >= n and not source.limit_row
    if forms != ("real", "half", "", "") or not whole or run.whole or result.times or n % 2:
        return run
    if largest_prime(n) > _SMALL_PRIMES or mirrored(n // 2, _SMALL_RADIX) is None:
        return run
    half = replace(
        run,
        n=n // 2,
        source=replace(source, form="packed", rows=n // 2, row=2),
        target=replace(result, form="split"),
    )
    plan = group_plan(half, policy, target)
    few = half.count * half.n <= _FEW * target.compute_units
    few = few and (plan.items == 1 or n >= _LONG_LINE)
    beside = few or plan.items * 2 * run.real.itemsize >= _LONG_RUN
    if not beside or _is_short(half, plan.items, target) or plan.held > policy.item:
        return run
    return half if _fits(plan, half, target) else run


def _layout(n: int, slots: int, beside: bool, run: int, radix: int, banks: int) -> Layout:
    """Of rows written by butterflies of a radix, in runs of so many.

    Gaps let the runs that a stage writes go on in the next banks, of so many that each slot has;
    or nearly so, where they would be as long as what lies between them.
    """
    period, gap = run * radix, (run - run * radix) % banks
    if run >= banks or period % 2:
        return Layout(n, slots, beside, n, 0)
    if run == 1:
        return Layout(n, slots, beside, lcm(period, banks), run)
    if 4 * gap > period:
        return Layout(n, slots, beside, -(-banks // period) * period, run)
    return Layout(n, slots, beside, period, gap)


@lru_cache(maxsize=1024)
def _even(n: int, slots: int, run: int, radices: tuple[int, int], items: int, banks: int) -> Layout:
    """Of rows from one radix to the next, whose butterflies step over whole blocks.

    Then a work-item has one place and steps that the text knows.  Few neighbours meet in a bank.
    """
    period, count = run * radices[0], n // radices[1]
    t = np.arange(min(items, banks))
    sides = t // run * period + t % run, t

    def worth(layout: Layout) -> tuple[int, int]:
        places = (rows + rows // layout.block * layout.gap for rows in sides)
        return sum(int(np.bincount(at % banks).max()) for at in places), layout.length

    blocks = [period * d for d in range(1, count // period + 1) if count % (period * d) == 0]
    return min(
        (Layout(n, slots, False, block, gap) for block in blocks for gap in range(banks)),
        key=worth,
    )


def _with_one_stride(layouts: list[Layout], banks: int, together: int) -> list[Layout]:
    """The layouts with a stride for all of them.

    Each slot keeps to its own part of local memory then: its work-items need not wait for those
    of others that still read by the previous layout.  Slots of which so many are served together
    begin in different banks.
    """
    length, slots = max(layout.length for layout in layouts), layouts[0].slots
    if slots == 1:
        return [replace(layout, stride=layout.length) for layout in layouts]
    apart = max(1, banks // together)
    stride = -(-(length - apart) // banks) * banks + apart
    if apart == 1:
        stride = length | 1  # odd ones take slots to all banks
    return [replace(layout, stride=stride) for layout in layouts]


def _across(side: Rows) -> bool:
    """Whether neighbours go along lanes: the axis whose numbers lie nearer to each other."""
    if side.form == "packed":
        return False
    if side.lane == 1 or side.row == 1:
        return side.lane == 1
    return abs(side.lane) < abs(side.row)
