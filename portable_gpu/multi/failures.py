"""The policy for a block whose device fails or lacks memory.

The other devices end what was enqueued on them, and stay usable.  With ``on_failure="retry"`` the
block is tried on the other devices, one after another, until one succeeds
(:func:`retry_block`).  A block of NumPy's arrays for which no device has memory is then computed in
two halves, which are not halved again.  Work that is not a block of its own, such as copies of an
array on all devices, is repeated with the whole call by the devices that have not failed in it
(:func:`run_with_retry`).  A replicated array then has copies on these alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

import pyopencl as cl

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.multi.issue import Work
from portable_gpu.multi.member import DEVICE_ERRORS, Member

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

T = TypeVar("T")


def block_error(error: Exception, member: Member, number: int, count: int) -> Exception:
    """Return the error of a block whose device failed; its text names the block and the device."""
    device_error = member.named(error)
    return type(device_error)(f"block {number} of {count} on {device_error}")


def drain(members: Iterable[Member]) -> None:
    """Wait for the commands of all queues of devices, of which some may have failed."""
    for member in members:
        for queue in member.queues:
            with contextlib.suppress(cl.Error):
                queue.finish()


def retry_block(
    error: Exception,
    member: Member,
    number: int,
    members: Iterable[Member],
    work: Work[T],
    halves: Callable[[Member, int], T] | None,
) -> T:
    """Compute a failed block on other devices, or in halves.

    Args:
        error: The error of the block.
        member, number: The device that failed, and the number of the block.
        members: The devices of the group.
        work: The work on a block.
        halves: The work on a block in two halves, if it can be halved.

    Raises:
        DeviceMemoryError, DeviceFailedError: Every attempt failed; ``error`` itself.
    """
    for other in sorted(members, key=lambda candidate: -candidate.free):
        if other is not member:
            with contextlib.suppress(*DEVICE_ERRORS):
                return work(other, number)
            drain([other])
    if halves is not None and isinstance(error, DeviceMemoryError):
        with contextlib.suppress(*DEVICE_ERRORS):
            return halves(member, number)
    raise error


class _Repeats:
    """The repeats of a call and of the work inside it.

    Attributes:
        failed: The devices that failed in the call; the others do their work.
        number: How many repeats the errors so far allowed.
    """

    def __init__(self) -> None:
        self.failed: set[Member] = set()
        self.number = 0
        self._is_last = False

    def allow(self, group: DeviceGroup, error: Exception) -> bool:
        """Return whether work that ended in an error of a device is repeated.

        It is if the device had not failed before.  It is repeated once more on all devices if all
        have failed, and once for an error that names no device.
        """
        if self._is_last:
            return False
        member = next((candidate for candidate in group.members if candidate.is_in(error)), None)
        if member in self.failed:
            return False
        if member is None:
            self._is_last = True
        else:
            self.failed.add(member)
            if len(self.failed) == group.size:
                self.failed.clear()
                self._is_last = True
        self.number += 1
        return True


#: The repeats of the call of the thread, which work inside the call shares.
_repeats: ContextVar[_Repeats | None] = ContextVar("_repeats", default=None)


def working(group: DeviceGroup) -> Sequence[Member]:
    """Return the devices of a group that have not failed in the present call."""
    repeats = _repeats.get()
    if repeats is None or not repeats.failed:
        return group.members
    return [member for member in group.members if member not in repeats.failed]


def run_with_retry(group: DeviceGroup, work: Callable[[], T]) -> T:
    """Do work of several devices; if one fails and the group retries, repeat it without that one.

    Args:
        group: The group.
        work: The work of the devices of :func:`working`.  It must be possible to repeat it.

    Raises:
        DeviceMemoryError, DeviceFailedError: A device failed, and the group does not retry; or one
            failed again.
    """
    if group.on_failure == "raise":
        return work()
    outer = _repeats.get()
    repeats = _Repeats() if outer is None else outer
    token = _repeats.set(repeats)
    try:
        while True:
            before = repeats.number
            try:
                return work()
            except DEVICE_ERRORS as error:
                # Devices may have failed in work inside this one, which has ended its repeats.
                if not (repeats.allow(group, error) or repeats.number > before):
                    raise
            # The error is freed by now, and with it the arrays that its traceback kept.
            drain(group.members)
    finally:
        _repeats.reset(token)
