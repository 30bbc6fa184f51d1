"""On CPUs, products of neighbouring blocks of few rows, which are multiplied together as a run.

A block of few rows reads all of the other operand and does little work with it.  A run is the
fewest blocks that have 256 rows and leave at least four runs; or else the most blocks that leave
four runs, if these have 64 rows; or else the fewest that have 64 rows; or else all blocks::

    block    | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | ...       24 blocks of 96 rows
    run      |     0     |     1     |     2 ...         8 runs of 288 rows

Runs depend on the blocks and not on the devices, so the bits of the result are the same for any
number of devices.  A run whose blocks are on several devices is computed by the one that has most
of them, and its blocks of the result stay there.  With ``out``, they are copied to its blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mode
from typing import TYPE_CHECKING, Any, NamedTuple

from portable_gpu.multi import transfers
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.operands import Cut, on_device, recorded_kernels
from portable_gpu.runtime.array import Array

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

#: The least rows, or columns, of a product on a CPU: with fewer, a launch has few tiles.
LEAST_ROWS_ON_CPUS = 256
#: The least number of runs, so that as many devices have work, if a quarter of these rows suffices.
_LEAST_RUNS = 4


def run_length(bounds: Sequence[int]) -> int:
    """Return the number of blocks of a run, which divides the number of all blocks."""
    count, extent = len(bounds) - 1, bounds[-1]
    lengths = [length for length in range(1, count + 1) if count % length == 0]
    with_least_runs = [length for length in lengths if count // length >= _LEAST_RUNS]

    def shortest(candidates: Sequence[int], least: int) -> int | None:
        long_enough = (length for length in candidates if length * extent // count >= least)
        return next(long_enough, None)

    few = LEAST_ROWS_ON_CPUS // 4
    return (
        shortest(with_least_runs, LEAST_ROWS_ON_CPUS)
        or shortest(with_least_runs[-1:], few)  # the longest of them
        or shortest(lengths, few)
        or count
    )


class BlockOperand(NamedTuple):
    """An operand of a product.

    Attributes:
        blocks: The part of the operand that each block of the result needs.
        axis: The axis of these parts; ``None``: each block needs the whole operand.
    """

    blocks: Sequence[Any]
    axis: int | None

    def joined(self, group: DeviceGroup, member: Member, numbers: range) -> Array:
        """Return what some neighbouring blocks read, as one array on a device."""
        first = self.blocks[numbers[0]]
        if self.axis is None or len(numbers) == 1:
            return on_device(group, member, first)
        parts = [self.blocks[number] for number in numbers]
        shape = [*first.shape]
        shape[self.axis] = sum(part.shape[self.axis] for part in parts)
        whole, start = member.empty(shape, first.dtype), 0
        for part in parts:
            stop = start + part.shape[self.axis]
            with member.named_errors():
                place = transfers.part(whole, self.axis, start, stop)
                place[...] = on_device(group, member, part)
            start = stop
        return whole


def compute_runs(
    group: DeviceGroup,
    cut: Cut,
    length: int,
    operands: Sequence[BlockOperand],
    product: Callable[[Any, Any, Any, Any], Any],
    out: GroupArray | None,
    *,
    reads_out: bool,
    waits: bool,
) -> list[GroupBlock]:
    """Compute a product in runs, and return the blocks of the result.

    Args:
        group: The group.
        cut: The blocks of the result.
        length: The number of blocks of a run.
        operands: The two operands.
        product: Computes the product of two arrays of a device.  Its arguments are these, the array
            for the result or ``None``, and the engine.
        out: The array for the result, or ``None``.
        reads_out: Whether the product adds to it.
        waits: See :meth:`DeviceGroup.for_blocks`.
    """
    runs = [range(first, first + length) for first in range(0, len(cut.members), length)]
    outs = None if out is None else BlockOperand([b.array for b in out.blocks], cut.axis)

    def work(member: Member, run_number: int) -> list[GroupBlock]:
        numbers = runs[run_number]
        start, stop = cut.bounds[numbers[0]], cut.bounds[numbers[-1] + 1]
        left, right = (operand.joined(group, member, numbers) for operand in operands)
        run_out = None
        if out is not None and outs is not None:
            if reads_out:
                run_out = outs.joined(group, member, numbers)
            else:
                shape = [*out.shape]
                shape[cut.axis] = stop - start
                run_out = member.empty(shape, out.dtype)
        with recorded_kernels(member, numbers[0]):
            result = product(left, right, run_out, member.engine)
        if run_out is None:  # memory of the product, which the group has not counted yet
            member.count(result)
        blocks = []
        for number in numbers:
            first, end = cut.range(number)
            part = transfers.part(result, cut.axis, first - start, end - start)
            blocks.append(GroupBlock(first, end, member, part))
        return blocks

    owners = [mode(cut.members[number] for number in run) for run in runs]
    blocks = [block for done in group.for_blocks(owners, work, waits=waits) for block in done]
    if out is None:
        return blocks

    def store(member: Member, number: int) -> None:
        with member.named_errors():
            out.blocks[number].array[...] = on_device(group, member, blocks[number].array)

    group.for_blocks([block.member for block in out.blocks], store, can_move=False)
    return list(out.blocks)
