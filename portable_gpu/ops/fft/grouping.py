"""The choice of a shape for a pass: radices, numbers of a work-item, transforms of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from portable_gpu.ops.fft.passes import Pass, Rows
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.shape import GroupPlan, Layout, Stage
from portable_gpu.ops.fft.tables import chirp_length, largest_prime
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two, is_power_of_two
from portable_gpu.targets import Target

#: 32-bit words that local memory serves at once.
_BANKS = 32
#: Bytes of a run of rows that neighbours read at once, below which a side is staged.
_RUN = 64
#: Words beside those of numbers that a work-item has in registers, by AMD's and NVIDIA's compilers;
#: and those of roots between two passes.  Odd radices take as many as numbers, and 4.
_PLACES, _PLACES_OF_ROOTS = 28, 20
#: Up to which prime that is said of: 37 complex64 numbers take 167 registers in all.
_SMALL_PRIMES = 13
#: Of a compute unit, each with registers for two sub-groups at the least.
_SIMDS = 4
#: Bytes that memory hands out at once, and how many of the compute units should have a group.
_SECTOR, _BUSY = 32, 0.75
#: The largest radix, and that of transforms which would have many stages by it: then a work-item
#: holds more numbers.  H200, complex64: 1024 x 16384 in 91 us, by 16 in 102; 2048 x 8192 in 76 and
#: 79; but 4096 x 4096 in 72 and 70.  In complex128 it was slower, 104 us and 96.
_RADIX, _LARGE_RADIX, _MANY_STAGES = 16, 32, 4
#: More work-items hold fewer numbers where there are so few for each compute unit (H200: 64 of 64
#: complex64 in 2.3 us, and 4.2), and in double precision where rows lie along the transform.
#: H200, complex128: 65536 x 256 in 133 us, by 16 in 141; 4096 x 4096 in 145 and 151; but across,
#: 256 x 256 x 256 in 434 and 412.
_SMALL_RADIX, _SMALL_ITEM, _FEW = 8, 13, 4096


def stage_length(n: int, policy: GroupFftPolicy) -> int:
    """The length of which the stages of a transform of n are."""
    return n if policy.reach.has_butterflies(n) else chirp_length(n)


def group_plan(run: Pass, policy: GroupFftPolicy, target: Target) -> GroupPlan:
    """How groups make the transforms of a pass.

    As many slots as bring whole runs of lanes, and fill a group; fewer where local memory ends, or
    where compute units would have no group: as many then as a sector of memory holds.
    """
    across = _across(run.source), _across(run.target)
    held = _held(run, any(across), policy, target)
    length = stage_length(run.n, policy)
    items = _items(length, *held[0])[1]
    wanted = max(1, policy.group // items)
    sides = zip((run.source, run.target), across, strict=True)
    wanted = max(wanted, *(_wanted(side, own, run, policy) for side, own in sides))
    slots = min(floor_power_of_two(wanted), ceil_power_of_two(-(-run.lanes // run.planes)))
    least = _SECTOR // (2 * run.real.itemsize) if any(across) else 1
    busy = _BUSY * target.compute_units
    while (
        slots > least
        and slots * items > target.subgroup_size
        and run.count // (slots * run.planes) < busy
    ):
        slots //= 2
    while slots:
        for item, radix in held:
            plan = _plan(run, length, item, radix, target, slots, *across)
            if _fits(plan, run, target):
                return plan
        slots //= 2
    return plan


def group_plans(
    runs: Sequence[Pass], policy: GroupFftPolicy, target: Target
) -> tuple[GroupPlan, ...]:
    """Those of one pass, or of two that share a launch: with groups of one size, if they can be."""
    plans = tuple(group_plan(run, policy, target) for run in runs)
    for group in sorted({plan.group for plan in plans}, reverse=True):
        same = replace(policy, group=group)
        found = tuple(group_plan(run, same, target) for run in runs)
        if {plan.group for plan in found} == {group}:
            return found
    return plans


def _held(run: Pass, across: bool, policy: GroupFftPolicy, target: Target) -> list[tuple[int, int]]:
    """Numbers of a work-item and the largest radix: the best, then what there may be room for."""
    length = stage_length(run.n, policy)
    found = [(policy.item, _RADIX), (2 * policy.item, _RADIX)]
    if run.count * length <= _FEW * target.compute_units or (run.real.needs_fp64 and not across):
        found.insert(0, (_SMALL_ITEM, _SMALL_RADIX))
    elif len(_items(length, *found[0])[0]) >= _MANY_STAGES and not run.real.needs_fp64:
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
    places = _PLACES + (2 * plan.held + 4 if odd else 0) + (_PLACES_OF_ROOTS if run.whole else 0)
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


def _wanted(side: Rows, across: bool, run: Pass, policy: GroupFftPolicy) -> int:
    """Slots that make whole runs of lanes."""
    if not across:
        return 1
    return max(1, policy.beside * 2 // (side.side.components * run.planes))


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
    radices, items = _items(length, item, largest)
    if length != run.n:
        radices = _turning(radices)
    pair = 2 * run.real.itemsize
    staged = []
    for side, across, radix in (
        (run.source, source, radices[0]), (run.target, target_across, radices[-1])
    ):  # fmt: skip
        runs = min(items, length // radix) * pair
        staged.append(side.form == "half" or (not across and runs < min(_RUN, run.n * pair)))
    if len(radices) == 1 and source != target_across and not any(staged):
        staged[0] = True
    after = source if staged[1] else target_across
    before = after if staged[0] else source
    banks = _BANKS * 4 // run.real.itemsize
    layouts = [Layout(length, slots, before and after, length, 0)]
    done = 1
    for number, radix in enumerate(radices[:-1], 1):
        beside = after and (before or number > 1)
        layouts.append(_layout(length, slots, beside, done, radix, banks))
        done *= radix
    layouts = _with_one_stride(layouts, banks)
    stages: list[Stage] = []
    done, table = 1, 0
    for number, (radix, layout) in enumerate(zip(radices, layouts, strict=True)):
        count = length // radix
        stages.append(Stage(number, radix, done, count, -(-count // items), table, layout))
        if done > 1:
            table += (radix - 1).bit_length() * done
        done *= radix

    def made(rounds: tuple[tuple[str, ...], ...]) -> GroupPlan:
        return GroupPlan(
            run.n,
            length,
            tuple(stages),
            items,
            slots,
            rounds,
            source,
            target_across,
            staged[0],
            staged[1],
            layouts[0],
        )

    both = made((("re", "im"),))
    room = min(target.static_local_mem, target.local_mem_per_unit // 2)
    return both if both.local_numbers * run.real.itemsize <= room else made((("re",), ("im",)))


def _layout(n: int, slots: int, beside: bool, run: int, radix: int, banks: int) -> Layout:
    """Of rows written by butterflies of a radix, in runs of so many.

    Gaps let the runs that a stage writes go on in the next banks.
    """
    period = run * radix
    wide = max(1, banks // slots) if beside else banks
    if run >= wide or period % 2:
        return Layout(n, slots, beside, n, 0)
    return Layout(n, slots, beside, -(-wide // period) * period, run)


def _with_one_stride(layouts: list[Layout], banks: int) -> list[Layout]:
    """The layouts with a stride for all of them.

    Each slot keeps to its own part of local memory then: its work-items need not wait for those
    of others that still read by the previous layout.  Slots begin in different banks.
    """
    length, slots = max(layout.length for layout in layouts), layouts[0].slots
    apart = max(1, banks // slots)
    stride = length if slots == 1 else -(-(length - apart) // banks) * banks + apart
    return [replace(layout, stride=stride) for layout in layouts]


def _across(side: Rows) -> bool:
    """Whether neighbours go along lanes: the axis whose numbers lie nearer to each other."""
    if side.lane == 1 or side.row == 1:
        return side.lane == 1
    return abs(side.lane) < abs(side.row)


@lru_cache(maxsize=1024)
def _items(n: int, most: int, largest: int) -> tuple[tuple[int, ...], int]:
    """The radices of a transform, and its work-items, which hold at most ``most`` numbers each.

    The work-items are such that few of them idle in any stage.
    """
    radices = _factors(n, min(most, largest))
    most = max(most, *radices)
    found = []
    for items in sorted({-(-n // radix // b) for radix in radices for b in range(1, most + 1)}):
        each = [-(-n // radix // items) * radix for radix in radices]
        if max(each) <= most:
            found.append((sum(each) * items, items))
    return radices, min(found)[1]


def _turning(radices: tuple[int, ...]) -> tuple[int, ...]:
    """The radices, with equal ones at both ends if two are equal: the way back begins at once."""
    twice = [radix for radix in radices if radices.count(radix) > 1 and radix % 2 == 0]
    if not twice:
        return radices
    inner = list(radices)
    inner.remove(twice[0])
    inner.remove(twice[0])
    return (twice[0], *inner, twice[0])


@lru_cache(maxsize=1024)
def _factors(n: int, most: int) -> tuple[int, ...]:
    """Few radices up to ``most`` whose product is n, as equal as can be; the largest ones first."""
    best: tuple[tuple[int, int], tuple[int, ...]] | None = None

    def go(rest: int, limit: int, chosen: tuple[int, ...]) -> None:
        nonlocal best
        if rest == 1:
            worth = len(chosen), sum(chosen)
            if best is None or worth < best[0]:
                best = worth, chosen
            return
        if best is not None and len(chosen) >= best[0][0]:
            return
        for radix in range(min(limit, rest), 1, -1):
            if rest % radix == 0:
                go(rest // radix, radix, (*chosen, radix))

    go(n, max(13, most, min(n, largest_prime(n))), ())
    if best is None:
        raise ValueError(f"{n} has no butterfly")
    return best[1] or (1,)
