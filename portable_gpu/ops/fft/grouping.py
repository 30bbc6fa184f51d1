"""The choice of a shape for a pass: radices, numbers of a work-item, transforms of a group.

The constants were measured: see docs/experiments/fft.md, "Constants".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import lcm, log2

import numpy as np

from portable_gpu.ops.fft.passes import Pass, PassOperand
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.radices import mirrored, spread
from portable_gpu.ops.fft.shape import FftStage, GroupShape, LocalLayout
from portable_gpu.ops.fft.tables import largest_prime
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two, is_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures

#: The largest prime radix for which odd radices take twice the registers of the numbers, and 4
#: more: 37 numbers of complex64 take 167 registers in all.
_SMALL_PRIMES = 13
#: The largest radix; and the largest radix of transforms in single precision that would otherwise
#: have this number of stages, for which a work-item holds more numbers.
_RADIX, _LARGE_RADIX, _MANY_STAGES = 16, 32, 4
#: The radix and the numbers of a work-item with fewer numbers: if there are few numbers for each
#: compute unit, and in double precision if rows are adjacent.
_SMALL_RADIX, _SMALL_ITEM = 8, 13
#: Numbers of a work-item with butterflies of large primes: the first for which enough lanes are
#: used.
_PRIME_ITEMS = 40, 32


@dataclass(frozen=True)
class GroupFigures(Figures):
    """The thresholds of the rules for the groups of a pass.

    Attributes:
        adjacent_bytes, staged_bytes: A source or target of which neighbours access fewer adjacent
            bytes than ``adjacent_bytes`` is staged through local memory, if it has more than
            ``staged_bytes`` for each compute unit.
        packed_bytes, packed_length: Real lines are transformed as complex lines of half the length
            if work-items access this number of adjacent bytes; or, if there are few numbers, from
            this length on.
        extra_registers: Registers of a work-item in addition to those of its numbers.
        twiddle_registers: Those for twiddle factors between two passes.
        busy: The part of the compute units that should have a group.
        busy_few_columns: That part if more groups would mean adjacent columns of less than a
            sector.
        unaligned_group: Groups hold twice as many adjacent columns if these do not start at a
            sector, up to this part of the largest number of work-items.
        few_numbers: Numbers for each compute unit up to which a work-item has fewer of them.
        short_above, short_below: Between these lengths, too, if rows are adjacent.
        used_lanes: The part of the lanes that butterflies of large primes should use.
        latency_numbers, short_prime: Cyclic convolutions by large primes are not used below the
            length ``short_prime`` if there are at most ``latency_numbers`` for each compute unit:
            their latency is longer than that of a chirp convolution.
        doubled_group: The relative cost of doubling a group of several transforms, compared with
            that of idle lanes.
    """

    adjacent_bytes: int
    staged_bytes: int
    packed_bytes: int
    packed_length: int
    extra_registers: int
    twiddle_registers: int
    busy: float
    busy_few_columns: float
    unaligned_group: float
    few_numbers: int
    short_above: int
    short_below: int
    used_lanes: float
    latency_numbers: int
    short_prime: int
    doubled_group: float


def _figures(target: Target) -> GroupFigures:
    return GroupFigures.of("fft groups", target)


def group_shape(
    pass_: Pass, policy: GroupFftPolicy, target: Target, group: int | None = None
) -> GroupShape:
    """Choose the shape of the groups of a pass.

    A group has as many slots (transforms) as coalesced access and its number of work-items need.
    It has fewer if local memory is too small, or if compute units would have no group; then it
    keeps the transforms of a memory sector, or a single one if both sides of few columns are
    accessed by less than a sector anyway.

    Args:
        pass_, policy, target: The pass, its policy, and the device.
        group: The number of work-items of a group, if another pass of the launch requires it.
    """
    figures = _figures(target)
    across = _across(pass_.source), _across(pass_.target)
    options = _register_options(pass_, any(across), policy, target)
    length = _stage_length(pass_, policy, target)
    items = _radices(pass_, length, *options[0], target)[1]
    if group or any(across):
        slots_for_access = max(1, (group or policy.group_size) // items)
    else:
        slots_for_access = _transforms_per_group(items, policy, target)
    sides = zip((pass_.source, pass_.target), across, strict=True)
    for side, is_across in sides:
        of_side = _slots_for_sectors(side, is_across, pass_, items, policy, target)
        slots_for_access = max(slots_for_access, of_side)
    max_slots = ceil_power_of_two(-(-pass_.lanes // pass_.planes))
    slots = min(floor_power_of_two(slots_for_access), max_slots)
    may_be_single = not any(across) or (all(across) and not pass_.twiddle_length)
    sector = target.sector_bytes // (2 * pass_.real.itemsize)
    min_slots = 1 if may_be_single else sector
    while slots > min_slots and slots * items > target.subgroup_size:
        small = 2 * slots * items <= target.max_work_group_size
        busy_part = (
            figures.busy_few_columns if any(across) and slots <= sector and small else figures.busy
        )
        if pass_.count // (slots * pass_.planes) >= busy_part * target.compute_units:
            break
        slots //= 2
    while slots:
        for item, radix in options:
            shape = _shape(pass_, length, item, radix, target, slots, *across)
            if _fits(shape, pass_, target):
                return shape
        slots //= 2
    return shape


def _transforms_per_group(items: int, policy: GroupFftPolicy, target: Target) -> int:
    """Choose the number of transforms of a group, each of ``items`` work-items.

    It is one if a transform has many work-items.  Else a group has half to twice the size of the
    policy, such that few lanes idle and the group is small.
    """
    figures = _figures(target)
    if 2 * items >= policy.group_size:
        return max(1, policy.group_size // items)
    lanes = target.subgroup_size

    def worth(slots: int) -> float:
        group = slots * items
        idle = -(-group // lanes) * lanes / group
        return idle * (1 + figures.doubled_group * log2(group / lanes))

    powers = (1 << bit for bit in range(policy.group_size.bit_length() + 1))
    return min(
        (s for s in powers if policy.group_size <= 2 * s * items <= 4 * policy.group_size),
        key=worth,
    )


def group_shapes(
    passes: Sequence[Pass], policy: GroupFftPolicy, target: Target
) -> tuple[GroupShape, ...]:
    """Choose the shapes of one pass, or of two in one launch with equal groups if possible."""
    if len(passes) == 2 and (fused := _fused_shapes(passes, policy, target)):
        return fused
    shapes = tuple(group_shape(pass_, policy, target) for pass_ in passes)
    if len(passes) == 2 and any(
        limits_unit_to_one_group(shape, pass_, target)
        for shape, pass_ in zip(shapes, passes, strict=True)
    ):
        policy = replace(policy, adjacent=max(1, policy.adjacent // 2))
        shapes = tuple(group_shape(pass_, policy, target) for pass_ in passes)
    for group in sorted({shape.group for shape in shapes}, reverse=True):
        same_size = tuple(group_shape(pass_, policy, target, group) for pass_ in passes)
        if {shape.group for shape in same_size} == {group}:
            return same_size
    return shapes


def is_fused_by_group(passes: Sequence[Pass], shapes: Sequence[GroupShape]) -> bool:
    """Whether each group computes both passes of a part."""
    return len(passes) == 2 and all(
        groups(pass_, shape) == pass_.parts for pass_, shape in zip(passes, shapes, strict=True)
    )


def _fused_shapes(
    passes: Sequence[Pass], policy: GroupFftPolicy, target: Target
) -> tuple[GroupShape, ...] | None:
    """Choose the shapes of two passes of which each group computes a whole part, if possible."""
    if any(pass_.count != pass_.parts * pass_.lanes for pass_ in passes):
        return None
    choices = []
    for pass_ in passes:
        across = _across(pass_.source), _across(pass_.target)
        length = _stage_length(pass_, policy, target)
        item, radix = _register_options(pass_, any(across), policy, target)[0]
        choices.append(
            (length, item, radix, across, _radices(pass_, length, item, radix, target)[1])
        )
    step = lcm(*(items for *_, items in choices))
    work_items = max(
        items * -(-pass_.lanes // pass_.planes)
        for pass_, (*_, items) in zip(passes, choices, strict=True)
    )
    group = -(-work_items // step) * step
    if group > target.max_work_group_size:
        return None
    shapes = tuple(
        _shape(pass_, length, item, radix, target, group // items, *across)
        for pass_, (length, item, radix, across, items) in zip(passes, choices, strict=True)
    )
    return shapes if all(map(_fits, shapes, passes, [target] * 2)) else None


def _stage_length(pass_: Pass, policy: GroupFftPolicy, target: Target) -> int:
    """Return :meth:`PassLimits.stage_length`; small problems avoid large primes in it."""
    figures = _figures(target)
    limits = policy.pass_limits
    if (
        pass_.n < figures.short_prime
        and pass_.count * pass_.n <= figures.latency_numbers * target.compute_units
    ):
        few = replace(
            limits, max_cyclic_prime=min(limits.max_cyclic_prime, _SMALL_PRIMES)
        ).stage_length(pass_.n)
        if few <= limits.max_length:
            return few
    return limits.stage_length(pass_.n)


def groups(pass_: Pass, shape: GroupShape) -> int:
    """The number of work-groups of a pass."""
    return pass_.count // pass_.lanes * -(-pass_.lanes // (shape.slots * pass_.planes))


def _register_options(
    pass_: Pass, across: bool, policy: GroupFftPolicy, target: Target
) -> list[tuple[int, int]]:
    """List the numbers of a work-item and the largest radix: the best first, then fallbacks."""
    figures = _figures(target)
    length = _stage_length(pass_, policy, target)
    options = [(policy.item_numbers, _RADIX), (2 * policy.item_numbers, _RADIX)]
    group = target.max_work_group_size
    if figures.short_above < length < figures.short_below and length == pass_.n and not across:
        return [(_SMALL_ITEM, _SMALL_RADIX), *options]
    if largest_prime(length) > _SMALL_PRIMES:
        lanes = target.subgroup_size
        for numbers in _PRIME_ITEMS:
            items = spread(length, numbers, _RADIX, group)[1]
            if items >= figures.used_lanes * -(-items // lanes) * lanes:
                return [(numbers, _RADIX), *options]
    if pass_.count * length <= figures.few_numbers * target.compute_units or (
        pass_.real.needs_fp64 and not across
    ):
        options.insert(0, (_SMALL_ITEM, _SMALL_RADIX))
    elif len(spread(length, *options[0], group)[0]) >= _MANY_STAGES and not pass_.real.needs_fp64:
        options.insert(0, (max(policy.item_numbers, _LARGE_RADIX), _LARGE_RADIX))
    return options


def uses_half_the_registers(shape: GroupShape, pass_: Pass, target: Target) -> bool:
    """Whether the numbers of a group take half of the registers of a compute unit."""
    words = 2 * shape.numbers_per_item * shape.group * pass_.real.itemsize // 4
    return words >= target.simds * target.subgroup_size * min(target.resident_registers, 254)


def limits_unit_to_one_group(shape: GroupShape, pass_: Pass, target: Target) -> bool:
    """Whether the registers of a compute unit hold only one group."""
    figures = _figures(target)
    words = 2 * shape.numbers_per_item * pass_.real.itemsize // 4 + 2 * figures.extra_registers
    return shape.group * words > target.simds * target.subgroup_size * min(
        target.resident_registers, 254
    )


def _fits(shape: GroupShape, pass_: Pass, target: Target) -> bool:
    """Whether work-items, local memory and registers of the device suffice for a group."""
    figures = _figures(target)
    words = pass_.real.itemsize // 4
    odd = not is_power_of_two(*(stage.radix for stage in shape.stages))
    extra = (
        figures.extra_registers
        + (2 * shape.numbers_per_item + 4 if odd else 0)
        + (figures.twiddle_registers if pass_.twiddle_length or pass_.target.form == "split" else 0)
    )
    prime = max(largest_prime(stage.radix) for stage in shape.stages)
    if prime > _SMALL_PRIMES:
        extra = figures.extra_registers + 7 * prime // 4
    needed = words * (2 * shape.numbers_per_item + extra)
    on_simd = -(-shape.group // (target.simds * target.subgroup_size))
    available = min(target.registers, 2 * target.resident_registers // on_simd)
    return (
        shape.group <= target.max_work_group_size
        and shape.local_numbers * pass_.real.itemsize <= target.static_local_mem
        and needed <= available
    )


def _slots_for_sectors(
    side: PassOperand, across: bool, pass_: Pass, items: int, policy: GroupFftPolicy, target: Target
) -> int:
    """The transforms that fill memory sectors; twice that if rows do not start at a sector."""
    figures = _figures(target)
    if not across:
        return 1
    slots = max(1, policy.adjacent * 2 // (side.rendered.components * pass_.planes))
    unaligned = side.row * side.rendered.components * pass_.real.itemsize % target.sector_bytes
    fits = 2 * slots * items <= figures.unaligned_group * target.max_work_group_size
    return 2 * slots if unaligned and fits else slots


def _shape(
    pass_: Pass,
    length: int,
    numbers: int,
    largest: int,
    target: Target,
    slots: int,
    source_across: bool,
    target_across: bool,
) -> GroupShape:
    """Return the shape of a pass.

    Args:
        pass_: The pass.
        length: The length that the stages transform.
        numbers: The numbers that a work-item holds, at most.
        largest: The largest radix.
        target: The target.
        slots, source_across, target_across: See :class:`GroupShape`.
    """
    radices, items = _radices(pass_, length, numbers, largest, target)
    staged = []
    for side, across, radix in (
        (pass_.source, source_across, radices[0]), (pass_.target, target_across, radices[-1])
    ):  # fmt: skip
        mirrors = side.form == "half" and (
            len(radices) > 1 or length != pass_.n or bool(pass_.twiddle_length)
        )
        short = not across and _accesses_short_runs(pass_, min(items, length // radix), target)
        direct = side.form in ("packed", "split")
        staged.append(not direct and (mirrors or short or length < pass_.n))
    if len(radices) == 1 and source_across != target_across and not any(staged):
        staged[0] = True
    # Whether neighbours have neighbouring slots in the first stage, and in the stages after it.
    after = source_across if staged[1] else target_across
    before = after if staged[0] else source_across
    banks = target.local_banks * 4 // pass_.real.itemsize
    rows = pass_.n
    if length > pass_.n:  # the rows of a chirp convolution that are not padding
        rows = -(-radices[0] // 2) * (length // radices[0])
    layouts = [LocalLayout(rows, slots, slots_adjacent=before and after, block=rows, gap=0)]
    layouts += _exchanged(radices, length, slots, items, (before, after), banks)
    if length != pass_.n:
        layouts += _exchanged(radices[::-1], length, slots, items, (after, after), banks)
    together = slots if before != after else min(slots, max(1, banks // items))
    natural, *padded = _with_one_stride(layouts, banks, together)
    layouts_forth = [natural, *padded[: len(radices) - 1]]
    stages = _stages(radices, length, items, layouts_forth, 0, 0, pass_.target.form == "split")
    back: tuple[FftStage, ...] = ()
    if length != pass_.n:
        table = stages[-1].table + stages[-1].roots
        layouts_back = [natural, *padded[len(radices) - 1 :]]
        back = _stages(radices[::-1], length, items, layouts_back, len(radices), table)

    def with_rounds(rounds: tuple[tuple[str, ...], ...]) -> GroupShape:
        return GroupShape(
            n=pass_.n,
            length=length,
            stages=stages,
            back=back,
            items=items,
            slots=slots,
            rounds=rounds,
            source_across=source_across,
            target_across=target_across,
            staged_source=staged[0],
            staged_target=staged[1],
            natural=natural,
        )

    shape = with_rounds((("re", "im"),))
    available = min(target.static_local_mem, target.local_mem_per_unit // 2)
    if shape.local_numbers * pass_.real.itemsize <= available:
        return shape
    return with_rounds((("re",), ("im",)))


def _accesses_short_runs(pass_: Pass, items: int, target: Target) -> bool:
    """Whether neighbours access few adjacent bytes, and there are enough numbers to stage them."""
    figures = _figures(target)
    pair = 2 * pass_.real.itemsize
    few = pass_.count * pass_.n * pair <= figures.staged_bytes * target.compute_units
    return not few and items * pair < min(figures.adjacent_bytes, pass_.n * pair)


def _stages(
    radices: tuple[int, ...],
    length: int,
    items: int,
    layouts: Sequence[LocalLayout],
    number: int,
    table: int,
    split: bool = False,
) -> tuple[FftStage, ...]:
    """Return the stages of one direction, numbered from ``number``, with roots from ``table``."""
    result: list[FftStage] = []
    done = 1
    for k, (radix, layout) in enumerate(zip(radices, layouts, strict=True)):
        count = length // radix
        stage = FftStage(
            number + k, radix, done, count, -(-count // items), table, layout,
            mirrored=split and 0 < k == len(radices) - 1,
        )  # fmt: skip
        result.append(stage)
        table += stage.roots
        done *= radix
    return tuple(result)


def _exchanged(
    radices: tuple[int, ...],
    length: int,
    slots: int,
    items: int,
    across: tuple[bool, bool],
    banks: int,
) -> list[LocalLayout]:
    """Return the layouts of the exchanges between stages.

    ``across``: whether neighbours have neighbouring slots before, and after the first exchange.
    """
    before, after = across
    slot_banks = items if 2 * items <= banks else banks  # banks that one of several slots accesses
    result, done = [], 1
    for number, radix in enumerate(radices[:-1], 1):
        slots_adjacent = after and (before or number > 1)
        used = banks // slots if slots_adjacent else banks if before != after else slot_banks
        layout = _layout(length, slots, slots_adjacent, done, radix, max(1, used))
        if not (slots_adjacent or layout.even(length // radices[number])):
            layout = _even(length, slots, done, radices[number - 1 : number + 1], items, banks)
        result.append(layout)
        done *= radix
    return result


def _radices(
    pass_: Pass, length: int, numbers: int, largest: int, target: Target
) -> tuple[tuple[int, ...], int]:
    """Return the radices of the stages, and the work-items of a transform."""
    if pass_.target.form == "split":
        mirrored_radices = mirrored(length, min(numbers, largest))
        assert mirrored_radices is not None, "real_as_complex rejects such passes"
        return mirrored_radices
    return spread(length, numbers, largest, target.max_work_group_size)


def real_as_complex(pass_: Pass, policy: GroupFftPolicy, target: Target) -> Pass:
    """Return a pass of real lines as one of complex lines of half their length, if that is faster.

    Results are then stored from registers.  It is used if work-items write enough adjacent numbers;
    or if there are few numbers, and lines are long or each is held by one work-item.
    """
    figures = _figures(target)
    n, source, result = pass_.n, pass_.source, pass_.target
    forms = source.form, result.form, source.factor, result.factor
    adjacent = source.row == 1 and source.rows >= n and source.limit >= n and not source.limit_row
    if forms != ("real", "half", "", "") or not adjacent:
        return pass_
    if pass_.twiddle_length or result.times or n % 2:
        return pass_
    if largest_prime(n) > _SMALL_PRIMES or mirrored(n // 2, _SMALL_RADIX) is None:
        return pass_
    half = replace(
        pass_,
        n=n // 2,
        source=replace(source, form="packed", rows=n // 2, row=2),
        target=replace(result, form="split"),
    )
    shape = group_shape(half, policy, target)
    few = half.count * half.n <= figures.few_numbers * target.compute_units
    few = few and (shape.items == 1 or n >= figures.packed_length)
    is_better = few or shape.items * 2 * pass_.real.itemsize >= figures.packed_bytes
    short = _accesses_short_runs(half, shape.items, target)
    if not is_better or short or shape.numbers_per_item > policy.item_numbers:
        return pass_
    return half if _fits(shape, half, target) else pass_


def _layout(
    n: int, slots: int, slots_adjacent: bool, pass_: int, radix: int, banks: int
) -> LocalLayout:
    """Return the layout of rows that butterflies of a radix write, in runs of ``run`` rows.

    Gaps shift each run to the banks after those of the run before; ``banks`` is the number of banks
    of a slot.  If such gaps would be almost as long as the runs, they are shorter.
    """
    period, gap = pass_ * radix, (pass_ - pass_ * radix) % banks
    if pass_ >= banks or period % 2:
        return LocalLayout(n, slots, slots_adjacent, n, 0)
    if pass_ == 1:
        return LocalLayout(n, slots, slots_adjacent, lcm(period, banks), pass_)
    if 4 * gap > period:
        return LocalLayout(n, slots, slots_adjacent, -(-banks // period) * period, pass_)
    return LocalLayout(n, slots, slots_adjacent, period, gap)


@lru_cache(maxsize=1024)
def _even(
    n: int, slots: int, pass_: int, radices: tuple[int, int], items: int, banks: int
) -> LocalLayout:
    """Return the layout between two radices in which butterflies step over whole blocks.

    A work-item then has one variable index, and its steps are constants of the text.  Of these
    layouts, one with the fewest bank conflicts is chosen.
    """
    period, count = pass_ * radices[0], n // radices[1]
    t = np.arange(min(items, banks))
    sides = t // pass_ * period + t % pass_, t

    def worth(layout: LocalLayout) -> tuple[int, int]:
        places = (rows + rows // layout.block * layout.gap for rows in sides)
        return sum(int(np.bincount(at % banks).max()) for at in places), layout.length

    blocks = [period * d for d in range(1, count // period + 1) if count % (period * d) == 0]
    return min(
        (LocalLayout(n, slots, False, block, gap) for block in blocks for gap in range(banks)),
        key=worth,
    )


def _with_one_stride(layouts: list[LocalLayout], banks: int, together: int) -> list[LocalLayout]:
    """Give all layouts one stride.

    Each slot then has its own part of local memory in all layouts: its work-items need not wait for
    those of other slots that still read by the previous layout.  ``together`` slots, which are
    accessed at once, start in different banks.
    """
    length, slots = max(layout.length for layout in layouts), layouts[0].slots
    if slots == 1:
        return [replace(layout, stride=layout.length) for layout in layouts]
    apart = max(1, banks // together)
    stride = -(-(length - apart) // banks) * banks + apart
    if apart == 1:
        stride = length | 1  # an odd stride distributes slots over all banks
    return [replace(layout, stride=stride) for layout in layouts]


def _across(side: PassOperand) -> bool:
    """Whether neighbouring work-items access neighbouring lanes: those with the smaller stride."""
    if side.form == "packed":
        return False
    if side.lane == 1 or side.row == 1:
        return side.lane == 1
    return abs(side.lane) < abs(side.row)
