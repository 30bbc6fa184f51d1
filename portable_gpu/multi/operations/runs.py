"""Products of blocks of few rows on CPUs, in runs of neighbouring blocks.

A product of few rows reads the other operand for little work.  So the blocks of a run are joined
and multiplied at once.  A run has at least 256 rows if there are four runs then, or else at least
64, if the matrix has them::

    block    | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | ...       24 blocks of 85 rows
    run      |     0     |     1     |     2 ...         8 runs of 256 rows

The runs follow from the blocks alone, so that bits are the same for any number of devices.  A run
whose blocks are on several devices is computed by the one that has most of them, where its blocks
of the result stay, unless they are those of ``out``.
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

#: The least rows, or columns, of a product of a CPU: smaller ones have few tiles for each launch.
LEAST_ROWS_ON_CPUS = 256
#: For this number of runs, which as many devices share, a quarter of these rows suffices.
_SHARED_RUNS = 4


def run_length(bounds: Sequence[int]) -> int:
    """Return the number of blocks of a run, which divides the number of all blocks."""
    count, extent = len(bounds) - 1, bounds[-1]
    lengths = [length for length in range(1, count + 1) if count % length == 0]
    shared = [length for length in lengths if count // length >= _SHARED_RUNS]

    def shortest(candidates: Sequence[int], least: int) -> int | None:
        long_enough = (length for length in candidates if length * extent // count >= least)
        return next(long_enough, None)

    few = LEAST_ROWS_ON_CPUS // 4
    return (
        shortest(shared, LEAST_ROWS_ON_CPUS)
        or shortest(shared[-1:], few)
        or shortest(lengths, few)
        or count
    )


class BlockOperand(NamedTuple):
    """An operand of a product.

    Attributes:
        blocks: What each block reads of it.
        axis: The axis of the blocks; ``None``: each block reads all of it.
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
                target = transfers.part(whole, self.axis, start, stop)
                target[...] = on_device(group, member, part)
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
        product: Computes the product of arrays of one device, given these, the array for the result
            or ``None``, and the engine.
        out: The array for the result, or ``None``.
        reads_out: Whether the product adds to it.
        waits: See :meth:`DeviceGroup.for_blocks`.
    """
    runs = [range(first, first + length) for first in range(0, len(cut.members), length)]
    outs = None if out is None else BlockOperand([b.array for b in out.blocks], cut.axis)

    def work(member: Member, run: int) -> list[GroupBlock]:
        numbers = runs[run]
        start, stop = cut.bounds[numbers[0]], cut.bounds[numbers[-1] + 1]
        left, right = (each.joined(group, member, numbers) for each in operands)
        target = None
        if out is not None and outs is not None:
            if reads_out:
                target = outs.joined(group, member, numbers)
            else:
                shape = [*out.shape]
                shape[cut.axis] = stop - start
                target = member.empty(shape, out.dtype)
        with recorded_kernels(member, numbers[0]):
            result = product(left, right, target, member.engine)
        if target is None:
            member.count(result)
        blocks = []
        for number in numbers:
            first, end = cut.range(number)
            part = transfers.part(result, cut.axis, first - start, end - start)
            blocks.append(GroupBlock(first, end, member, part))
        return blocks

    owners = [mode(cut.members[number] for number in run) for run in runs]
    blocks = [each for run in group.for_blocks(owners, work, waits=waits) for each in run]
    if out is None:
        return blocks

    def store(member: Member, number: int) -> None:
        with member.named_errors():
            out.blocks[number].array[...] = on_device(group, member, blocks[number].array)

    group.for_blocks([block.member for block in out.blocks], store, can_move=False)
    return list(out.blocks)
