"""The group of devices: an engine, queues and memory of each, and the calls on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import one_of, real_number, shown, whole
from portable_gpu.dtypes import as_dtype, element
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedError
from portable_gpu.multi import collectives, issue, operations, transfers
from portable_gpu.multi import failures as failing
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.choose import chosen_devices
from portable_gpu.multi.member import DEVICE_ERRORS, Member
from portable_gpu.multi.operations.operands import axis_of, check_parts
from portable_gpu.multi.partition import block_bounds, owners
from portable_gpu.multi.timeline import Recorder, Timeline, current_call
from portable_gpu.ops.gemm import gemm
from portable_gpu.runtime import fork
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.closing import Closing
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.runtime.views import as_array

T = TypeVar("T")

_THREADS = ("auto", "one", "each")
_ON_FAILURE = ("raise", "retry")
#: Blocks are at most this fraction of the memory of a device, so that a call has space for its
#: operands, its result and workspaces: 1 / 16.
_BLOCK_DIVISOR = 16


class DeviceGroup(EngineGroup, Closing):
    """Devices of one machine that compute calls together: ``pg.gemm(a, b, engine=group)``.

    Each device has an engine with a context and a queue of its own, and a second queue for copies.
    Arrays are cut into blocks, which follow from the array and the memory of a device alone, and
    each device takes whole blocks.  So results have the same bits for any number of devices of one
    kind.

    Safe to use from several threads.

    Attributes:
        members: The devices, with their engines, queues and accounts of memory.
        memory_limit: The maximum bytes of the group's arrays on a device, or ``None``.
        threads: The host threads that enqueue: ``"auto"``, ``"one"`` or ``"each"``.
        on_failure: The treatment of a block whose device fails: ``"raise"`` or ``"retry"``.
    """

    def __init__(
        self,
        devices: Sequence[cl.Device | str] | str | int | None = None,
        *,
        memory_limit: int | None = None,
        shares: Sequence[float] | None = None,
        threads: str = "auto",
        on_failure: str = "raise",
        precision: str = "ieee",
    ) -> None:
        """Open devices.

        Args:
            devices: The devices, or requests in the syntax of ``PORTABLE_GPU_DEVICE``; ``"all"``:
                all GPUs, or, if there is none, all devices of the runtime of the default CPU; a
                number: this number of equal sub-devices of the default device, which must be a CPU.
                Default: those that ``PORTABLE_GPU_DEVICE`` lists, else ``"all"``.
            memory_limit: The maximum bytes of the group's arrays on each device.
            shares: The parts of an array that the devices get, in any unit.  Default: equal parts
                for devices of one kind, else in proportion to their measured speed.
            threads: ``"one"`` host thread enqueues for all devices; ``"each"`` device has its own
                thread; ``"auto"``: each has its own for work that waits, such as copies.
            on_failure: The treatment of a block whose device fails or lacks memory: ``"raise"``
                raises the error; ``"retry"`` computes the block on the other devices, and then, for
                arrays of NumPy, in halves.  What is not a block is repeated with the whole call, by
                the devices that have not failed in it.
            precision: As in :class:`portable_gpu.Engine`.

        Raises:
            DeviceNotFoundError: There is no such device.
            ArgumentError: There is no device, a device is given twice, or an argument has an
                unknown value.
            UnsupportedError: The default device has no such sub-devices.
            ForkError: The process was forked from one that had used OpenCL.
        """
        fork.check()
        self.threads = one_of(threads, _THREADS, "threads")
        self.on_failure = one_of(on_failure, _ON_FAILURE, "on_failure")
        self.memory_limit = memory_limit
        if memory_limit is not None and whole(memory_limit, "memory_limit") < 1:
            raise ArgumentError(f"memory_limit is {memory_limit}; expected 1 byte or more")
        chosen = chosen_devices(devices)
        self._shares = None if shares is None else _checked_shares(shares, len(chosen))
        members: list[Member] = []
        for index, device in enumerate(chosen):
            engine = Engine(device, precision=precision)
            memory = engine.target.facts.global_mem_size
            members.append(Member(index, engine, min(memory, memory_limit or memory)))
        self.members = tuple(members)
        #: Whether :meth:`close` was called.
        self.is_closed = False
        fork.retire_in_children(self)

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "a DeviceGroup and its arrays belong to one process and cannot be pickled; open a "
            "group in the other process, and send values by x.asnumpy()"
        )

    def __repr__(self) -> str:
        names = ", ".join(sorted({member.name for member in self.members}))
        return f"<DeviceGroup of {self.size}: {names}>"

    def close(self) -> None:
        """Wait for the devices, and drop the engines' plans, programs and memory.

        Calls on this group raise ArgumentError from now on.  A device that failed is closed too;
        the calls that used it have raised its error.
        """
        self.is_closed = True
        failing.drain(self.members)
        for member in self.members:
            member.engine.close()

    @property
    def size(self) -> int:
        """The number of devices."""
        return len(self.members)

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The engine of each device."""
        return tuple(member.engine for member in self.members)

    @property
    def shares(self) -> tuple[float, ...]:
        """The parts of an array that the devices get; their sum is 1.

        Those of unlike devices are measured at the first use, by products of float32.
        """
        if self._shares is None:
            self._shares = measured_shares(self.members)
        return self._shares

    def shares_of(self, members: Sequence[Member]) -> list[float]:
        """Return the shares of some devices; equal ones if they have none."""
        shares = [self.shares[member.index] for member in members]
        return shares if any(shares) else [1.0] * len(members)

    @property
    def largest_block(self) -> int:
        """The maximum bytes of a block, unless a single index of its axis has more."""
        facts = [member.engine.target.facts for member in self.members]
        memory = min(member.limit for member in self.members) // _BLOCK_DIVISOR
        return max(1, min(memory, min(fact.max_alloc_size for fact in facts) // 2))

    def member(self, device: int) -> Member:
        """Return a device by its number.

        Raises:
            ArgumentError: There is no such device, or the group is closed.
        """
        self.check_open()
        if not 0 <= whole(device, "device") < self.size:
            raise ArgumentError(f"device is {device}; the group has devices 0 to {self.size - 1}")
        return self.members[device]

    # -- arrays

    def asarray(self, x: Any, axis: int = 0, *, blocks: int | None = None) -> GroupArray:
        """Copy an array to the devices, in blocks along an axis.

        Args:
            x: An array of NumPy or on a device, or anything that NumPy converts to an array, with
                at least one axis.
            axis: The axis that is cut.
            blocks: The number of blocks.  Default: 24, fewer where a block would have less than
                256 KiB, more where it would have more than 1/16 of a device's memory.

        Returns:
            The array, whose copies are complete.  Each block is in C order.

        Raises:
            AxisError, ShapeError: There is no such axis.
            DTypeError: The dtype is not supported.
            DeviceMemoryError: A device lacks memory.
        """
        array = self._host_array(x)
        cut_axis = axis_of(axis, array.ndim, "axis")
        bounds = self.bounds(array.shape[cut_axis], array.nbytes, blocks)

        def copy(member: Member, number: int) -> GroupBlock:
            start, stop = bounds[number : number + 2]
            values = transfers.part(array, cut_axis, start, stop)
            fresh = member.empty(values.shape, array.dtype)
            transfers.upload(member, values, fresh)
            return GroupBlock(start, stop, member, fresh)

        group_blocks = self.for_blocks(
            self.owners(len(bounds) - 1), copy, waits=array.nbytes >= issue.LEAST_BYTES_FOR_THREADS
        )
        return GroupArray(self, array.shape, array.dtype, cut_axis, group_blocks)

    def empty(
        self, shape: Sequence[int] | int, dtype: Any, axis: int = 0, *, blocks: int | None = None
    ) -> GroupArray:
        """Allocate an array in blocks along an axis, which is not filled.

        Args:
            shape, dtype: The shape and the dtype of the array.
            axis, blocks: As in :meth:`asarray`.

        Raises:
            AxisError, DTypeError, DeviceMemoryError: As :meth:`asarray`.
            ShapeError: An extent is negative.
        """
        listed = shape if isinstance(shape, (tuple, list)) else (shape,)
        extents = tuple([whole(extent, "an extent of shape") for extent in listed])
        if any(extent < 0 for extent in extents):
            raise ShapeError(f"shape is {shown(extents)}; extents are not negative")
        kind = as_dtype(dtype)
        element(kind)  # which raises for a dtype that kernels lack
        cut_axis = axis_of(axis, len(extents), "axis")
        bounds = self.bounds(extents[cut_axis], prod(extents) * kind.itemsize, blocks)

        def make(member: Member, number: int) -> GroupBlock:
            start, stop = bounds[number : number + 2]
            block = member.empty(
                (*extents[:cut_axis], stop - start, *extents[cut_axis + 1 :]), kind
            )
            return GroupBlock(start, stop, member, block)

        group_blocks = self.for_blocks(self.owners(len(bounds) - 1), make)
        return GroupArray(self, extents, kind, cut_axis, group_blocks)

    def broadcast(self, x: Any) -> GroupArray:
        """Copy an array to each device.

        Args:
            x: An array of NumPy, on a device or of the group, or anything that NumPy converts to an
                array.

        Returns:
            The replicated array, whose copies are complete.

        Raises:
            DTypeError, DeviceMemoryError: As :meth:`asarray`.
        """
        self.check_open()
        if isinstance(x, GroupArray):
            self.check_own(x, "x")
            return failing.run_with_retry(self, lambda: collectives.all_gather(x))
        array = self._host_array(x)
        return failing.run_with_retry(self, lambda: collectives.broadcast(self, array))

    def scatter(self, parts: Sequence[Any], axis: int = 0) -> GroupArray:
        """Copy given parts to the devices: part ``i`` becomes block ``i``.

        Args:
            parts: Arrays of one dtype, whose shapes differ along ``axis`` at most.
            axis: The axis along which they follow each other.

        Raises:
            ArgumentError: There is no part.
            ShapeError, DTypeError: They do not fit each other.
            DeviceMemoryError: A device lacks memory.
        """
        arrays = [self._host_array(part) for part in collectives.listed(parts)]
        if not arrays:
            raise ArgumentError("parts is empty; expected one array or more")
        first = arrays[0]
        cut_axis = axis_of(axis, first.ndim, "axis")
        check_parts(arrays, cut_axis)
        bounds = [0]
        for array in arrays:
            bounds.append(bounds[-1] + array.shape[cut_axis])

        def copy(member: Member, number: int) -> GroupBlock:
            fresh = member.empty(arrays[number].shape, first.dtype)
            transfers.upload(member, arrays[number], fresh)
            return GroupBlock(bounds[number], bounds[number + 1], member, fresh)

        waits = sum(array.nbytes for array in arrays) >= issue.LEAST_BYTES_FOR_THREADS
        group_blocks = self.for_blocks(self.owners(len(arrays)), copy, waits=waits)
        shape = (*first.shape[:cut_axis], bounds[-1], *first.shape[cut_axis + 1 :])
        return GroupArray(self, shape, first.dtype, cut_axis, group_blocks)

    def all_reduce(self, parts: GroupArray | Sequence[Array]) -> GroupArray:
        """Add arrays of one shape that are on the devices, and copy the sum to each device.

        Args:
            parts: Arrays on devices of the group, or an array of the group whose blocks are added.

        Returns:
            The replicated sum.  The parts are added by a binary tree that follows from their number
            alone: neighbours in pairs, then these sums in pairs.

        Raises:
            ArgumentError: There is no part, or one is not on a device of the group.
            ShapeError, DTypeError: They do not fit each other.
            DeviceMemoryError: A device lacks memory.
        """
        self.check_open()
        addends = collectives.parts_of(self, parts)
        return failing.run_with_retry(self, lambda: collectives.all_reduce(self, addends))

    # -- calls

    def compute(self, function: str, arguments: Mapping[str, Any]) -> Any:
        """Compute a public function; see :class:`portable_gpu.runtime.place.EngineGroup`."""
        self.check_open()
        for name in ("queue", "wait_for"):
            if arguments.get(name):
                raise UnsupportedError(f"{name}= is not taken with engine= a DeviceGroup")
        before = current_call.set(arguments.get("name", function))

        def call() -> Any:
            return operations.FUNCTIONS[function](self, arguments)

        try:
            # A call that has written a part of ``out`` may have overwritten what it reads.
            if arguments.get("out") is not None:
                return call()
            return failing.run_with_retry(self, call)
        except BaseException:
            failing.drain(self.members)
            raise
        finally:
            current_call.reset(before)

    def bounds(
        self, extent: int, nbytes: int, blocks: int | None = None, min_extent: int = 1
    ) -> tuple[int, ...]:
        """Return the first index of each block of an axis, and the extent.

        Args:
            extent: The extent of the axis.
            nbytes: The bytes of the array.
            blocks: The number of blocks; default: see :meth:`asarray`.
            min_extent: The least extent of a block of which there are several.
        """
        if blocks is not None and not 1 <= whole(blocks, "blocks") <= max(extent, 1):
            raise ArgumentError(f"blocks is {blocks}; expected 1 to {max(extent, 1)}")
        return block_bounds(extent, nbytes, self.largest_block, blocks, min_extent)

    def owners(self, blocks: int) -> list[Member]:
        """Return the device of each of a number of blocks, by the shares.

        Devices that failed in the present call get none.
        """
        able = failing.working(self)
        return [able[index] for index in owners(blocks, self.shares_of(able))]

    def for_blocks(
        self,
        members: Sequence[Member],
        work: Callable[[Member, int], T],
        *,
        waits: bool = False,
        halves: Callable[[Member, int], Any] | None = None,
        stores: bool = False,
        can_move: bool = True,
    ) -> list[T]:
        """Do some work on each block, and return its results.

        Args:
            members: The device of each block.
            work: The work, given the device and the number of the block.
            waits: Whether the work waits for the device, in place of only enqueuing commands.
            halves: Does the work on a block in two halves, if it can be halved.
            stores: Whether the work returns a function that stores its result, which is called
                after the work on the device's next block, and whose failure is that of its block.
            can_move: Whether another device can do the work, if one fails.

        An exception of one block is raised when each device has ended its enqueued commands.

        Raises:
            DeviceMemoryError, DeviceFailedError: A device lacks memory or fails; the message names
                it and the block.
        """
        self.check_open()
        count = len(members)
        failures: dict[int, tuple[Exception, Member]] = {}

        def attempt(member: Member, number: int, step: Callable[[], Any]) -> Any:
            try:
                return step()
            except DEVICE_ERRORS as error:
                if self.on_failure == "raise" or not can_move:
                    raise failing.block_error(error, member, number, count) from error
                failing.drain([member])
                failures[number] = failing.block_error(error, member, number, count), member
                return None

        def guarded(member: Member, number: int) -> Any:
            return attempt(member, number, partial(work, member, number))

        do_all: Callable[[Member, int], Any] = guarded
        retry: Any = work
        if stores:
            do_all = issue.storing_later(members, guarded, attempt)
            retry, halves = issue.storing_now(retry), halves and issue.storing_now(halves)
        own_threads = self.threads == "each" or (self.threads == "auto" and waits)
        several = len({member.index for member in members}) > 1
        run = issue.side_by_side if own_threads and several else issue.in_turns
        try:
            results: list[Any] = run(members, do_all)
            for number, (error, member) in failures.items():
                results[number] = failing.retry_block(
                    error, member, number, self.members, retry, halves
                )
        except BaseException:
            failing.drain(self.members)
            raise
        return results

    @contextmanager
    def timeline(self) -> Iterator[Timeline]:
        """Record the kernels and copies of all devices during a ``with`` block.

        Example::

            with group.timeline() as timeline:
                c = pg.gemm(a, b, engine=group)
            timeline.plot("gemm.png")
            timeline.chrome_trace("gemm.json")

        A kernel is recorded from the end of the commands before it to its own end.  Several
        timelines, one inside the block of another or of other threads, each have all the work.
        """
        self.check_open()
        timeline = Timeline([member.name for member in self.members])
        with ExitStack() as stack:
            for member in self.members:
                stack.callback(Recorder(timeline, member).close)
            stack.callback(failing.drain, self.members)
            yield timeline

    def check_own(self, x: GroupArray, name: str) -> None:
        """Check that an array is of this group.

        Raises:
            ArgumentError: It is of another.
        """
        if x.group is not self:
            raise ArgumentError(f"{name} is an array of another group; expected one of this")

    def check_open(self) -> None:
        """Check that the group is open.

        Raises:
            ArgumentError: It is closed.
        """
        if self.is_closed:
            raise ArgumentError("engine is a group that is closed; open another")

    def _host_array(self, x: Any) -> Any:
        """Return an array in NumPy."""
        self.check_open()
        if isinstance(x, GroupArray):
            return x.asnumpy()
        array = as_array(x, "x")
        return array.get() if isinstance(array, DEVICE_KINDS) else array


def _checked_shares(shares: Any, count: int) -> tuple[float, ...]:
    """Return shares whose sum is 1.

    Raises:
        ArgumentError, ArgumentTypeError: They are not one positive number for each device.
    """
    if not isinstance(shares, (tuple, list, np.ndarray)):
        raise ArgumentTypeError(f"shares is {shown(shares)}; expected a number for each device")
    numbers = [real_number(share, "an element of shares") for share in shares]
    if len(numbers) != count or min(numbers) < 0 or not 0 < sum(numbers) < float("inf"):
        raise ArgumentError(
            f"shares is {shown(shares)}; expected {count} numbers of at least 0, not all 0"
        )
    return tuple(number / sum(numbers) for number in numbers)


#: The size of the product that is timed.
_SIZE = 768
_TURNS = 3


# -- the parts of an array that devices of different speed get


def measured_shares(members: Sequence[Member]) -> tuple[float, ...]:
    """Return the shares of devices: equal ones of one kind, else by their speed, one after another.

    Two devices are of one kind if they have the same name, driver and number of compute units.
    """
    kinds = {_kind(member) for member in members}
    if len(kinds) == 1:
        return (1.0 / len(members),) * len(members)
    known: dict[tuple[str, str, int], float] = {}
    for member in members:
        kind = _kind(member)
        if kind not in known:
            known[kind] = 1.0 / _seconds(member)
    rates = [known[_kind(member)] for member in members]
    return tuple(rate / sum(rates) for rate in rates)


def _kind(member: Member) -> tuple[str, str, int]:
    facts = member.engine.target.facts
    return facts.name, facts.driver_version, facts.compute_units


def _seconds(member: Member) -> float:
    """Return the least time of a product of float32."""
    a, b = (member.empty((_SIZE, _SIZE), np.float32).fill(1) for _ in range(2))
    c = member.empty((_SIZE, _SIZE), np.float32)
    times = []
    for _ in range(1 + _TURNS):
        begin = time.perf_counter()
        gemm(a, b, out=c, engine=member.engine)
        member.finish()
        times.append(time.perf_counter() - begin)
    return min(times[1:])
