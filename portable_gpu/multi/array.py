"""The array type of a group: blocks of one axis on the devices, or a copy on each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentTypeError, ArrayIndexError, ShapeError, UnsupportedError
from portable_gpu.multi import moves, transfers
from portable_gpu.multi.failures import run_with_retry, working
from portable_gpu.multi.member import Member
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.layout import Shape, position, slice_bounds

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup


@dataclass(frozen=True, slots=True)
class GroupBlock:
    """A block of an array of a group.

    Attributes:
        start, stop: Its first index along the axis of the partition, and the end.
        member: Its device.
        array: Its elements.
    """

    start: int
    stop: int
    member: Member
    array: Array


_NO_SUCH_USE = (
    "an array of a DeviceGroup goes, with engine=group, to the functions that docs/multi.md lists, "
    "and to no others; x.asnumpy() copies it to NumPy, x.gather() to one device"
)


class GroupArray:
    """An array on the devices of a group.

    It is cut into blocks along one axis, each of which is on one device; or it is replicated: each
    device has a copy.  :meth:`DeviceGroup.asarray` and :meth:`DeviceGroup.broadcast` make them, and
    functions with ``engine=group`` accept and return them.

    Attributes:
        group: The group.
        shape, dtype: As in NumPy.
        axis: The axis that is cut; ``None`` of a replicated array.
        blocks: The blocks in the order of their indices; of a replicated array, the copies.
            Devices that failed in a call that was repeated have no copy of its result.
    """

    __slots__ = ("axis", "blocks", "dtype", "group", "shape")

    def __init__(
        self,
        group: DeviceGroup,
        shape: Shape,
        dtype: np.dtype[Any],
        axis: int | None,
        blocks: Sequence[GroupBlock],
    ) -> None:
        """Make an array of blocks that exist."""
        self.group, self.shape, self.dtype = group, shape, dtype
        self.axis, self.blocks = axis, tuple(blocks)

    def __reduce__(self) -> Any:
        return self.group.__reduce__()  # which raises the error: it belongs to one process

    def __repr__(self) -> str:
        place = "replicated" if self.axis is None else f"{len(self.blocks)} blocks"
        at = "" if self.axis is None else f" of axis {self.axis}"
        return f"<GroupArray {self.shape} {self.dtype}, {place}{at} on {self.group.size} devices>"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, counted once."""
        return self.size * self.dtype.itemsize

    @property
    def bounds(self) -> tuple[int, ...]:
        """The first index of each block, and the extent; empty of a replicated array."""
        if self.axis is None:
            return ()
        return (*(block.start for block in self.blocks), self.shape[self.axis])

    @property
    def shares(self) -> tuple[float, ...]:
        """The part of the axis that each device has; of a replicated array, 1 of each copy."""
        if self.axis is None:
            owners = [block.member for block in self.blocks]
            return tuple(float(member in owners) for member in self.group.members)
        extent = max(self.shape[self.axis], 1)
        return tuple(
            sum(block.stop - block.start for block in self.blocks if block.member is member)
            / extent
            for member in self.group.members
        )

    def copy_on(self, member: Member) -> Array:
        """Return the copy of a replicated array on a device.

        A device that failed when the copies were made has none, and gets one.
        """
        for block in self.blocks:
            if block.member is member:
                return block.array
        source = self.readable_copy()
        return moves.move(source.member, source.array, member)

    def readable_copy(self) -> GroupBlock:
        """Return one of the copies, on a device that has not failed in the call if there is one."""
        able = working(self.group)
        return next((block for block in self.blocks if block.member in able), self.blocks[0])

    def asnumpy(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Copy the array to NumPy, from all devices at once; waits for its values.

        Args:
            out: An array of the same shape and dtype for the values, with any strides.

        Raises:
            ShapeError, DTypeError, ReadOnlyError: ``out`` does not fit.
            NotPositiveDefiniteError, SingularMatrixError: The result does not exist.
        """
        return run_with_retry(self.group, lambda: transfers.asnumpy(self, out))

    def gather(self, device: int = 0) -> Array:
        """Return the whole array on one device.

        Args:
            device: The number of the device in the group.

        Raises:
            ArgumentError: There is no such device, or the group is closed.
            DeviceMemoryError: It lacks memory.
        """
        member = self.group.member(device)
        if self.axis is None:
            return self.copy_on(member)
        return run_with_retry(self.group, lambda: transfers.gathered(self, member))

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __bool__(self) -> bool:
        return bool(self._number())

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("an array of no axes has no len()")
        return self.shape[0]

    def __getitem__(self, key: Any) -> GroupArray:
        """Return a part that shares the memory of the blocks.

        Args:
            key: Slices, integers and ``...`` as in NumPy.  The axis of the partition takes slices
                of step 1; blocks without elements are left out.

        Raises:
            ArrayIndexError: Another index, or one that is out of range.
        """
        items = _full_key(key, self.ndim)
        if self.axis is None:
            blocks = [
                GroupBlock(b.start, b.stop, b.member, b.array[tuple(items)]) for b in self.blocks
            ]
            return GroupArray(self.group, blocks[0].array.shape, self.dtype, None, blocks)
        cut, extent = items[self.axis], self.shape[self.axis]
        low, high, step = slice_bounds(cut, extent) if isinstance(cut, slice) else (0, 0, 0)
        if step != 1:
            raise ArrayIndexError(
                f"axis {self.axis} is cut into blocks, and its index is {shown(cut)}; "
                "expected a slice of step 1 (gather() brings the array to one device)"
            )
        high = max(low, high)
        ranges = [(max(low, b.start), min(high, b.stop), b) for b in self.blocks]
        parts = [(start, stop, block) for start, stop, block in ranges if start < stop]
        if not parts:  # an array without elements has one block
            last = self.blocks[-1]
            low, high, parts = last.start, last.start, [(last.start, last.start, last)]
        blocks = []
        for start, stop, block in parts:
            items[self.axis] = slice(start - block.start, stop - block.start)
            part = block.array[tuple(items)]
            blocks.append(GroupBlock(start - low, stop - low, block.member, part))
        axis, shape = sum(isinstance(item, slice) for item in items[: self.axis]), part.shape
        whole_shape = (*shape[:axis], high - low, *shape[axis + 1 :])
        return GroupArray(self.group, whole_shape, self.dtype, axis, blocks)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise UnsupportedError(_NO_SUCH_USE)

    def __iter__(self) -> Any:
        """Refuse: Python would take the error of an index for the end, and find no elements."""
        raise UnsupportedError(_NO_SUCH_USE)

    def __eq__(self, other: object) -> bool:
        """Refuse, because arrays of NumPy are compared element by element."""
        raise UnsupportedError(_NO_SUCH_USE)

    __hash__ = object.__hash__

    def _number(self) -> Any:
        if self.size != 1:
            raise ShapeError(f"an array of shape {self.shape} is not one number")
        return self.asnumpy().reshape(())[()]


def _full_key(key: Any, ndim: int) -> list[Any]:
    """Return an index for each axis."""
    items = list(key) if isinstance(key, tuple) else [key]
    items = [
        item if isinstance(item, slice) or item is Ellipsis else position(item) for item in items
    ]
    gaps = [at for at, item in enumerate(items) if item is Ellipsis]
    if len(gaps) > 1 or len(items) - len(gaps) > ndim:
        raise ArrayIndexError(f"{len(items)} indices are too many for {ndim} axes")
    missing = [slice(None)] * (ndim - len(items) + len(gaps))
    at = gaps[0] if gaps else len(items)
    return [*items[:at], *missing, *items[at + len(gaps) :]]
