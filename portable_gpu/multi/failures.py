"""The policy for a block whose device fails or lacks memory.

The other devices end what was enqueued on them, and stay usable.  With ``on_failure="retry"`` the
block is tried on the other devices, one after another, until one succeeds
(:func:`retry_block`).  A block of NumPy's arrays for which no device has memory is then computed in
two halves, which are not halved again.  Work that is not a block of its own, such as copies of an
array on all devices, is repeated with the whole call (:func:`run_with_retry`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
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
    for other in sorted(members, key=lambda each: -each.free):
        if other is not member:
            with contextlib.suppress(*DEVICE_ERRORS):
                return work(other, number)
            drain([other])
    if halves is not None and isinstance(error, DeviceMemoryError):
        with contextlib.suppress(*DEVICE_ERRORS):
            return halves(member, number)
    raise error


def run_with_retry(group: DeviceGroup, work: Callable[[Sequence[Member]], T]) -> T:
    """Do work of several devices; if one fails and the group retries, do it once more.

    Args:
        group: The group.
        work: The work, given the devices that can be chosen for it: at first all, then those that
            have not failed, or all if all failed.  It must be possible to do it twice.

    Raises:
        DeviceMemoryError, DeviceFailedError: A device failed, and the group does not retry; or one
            failed again.
    """
    try:
        return work(group.members)
    except DEVICE_ERRORS as error:
        if group.on_failure == "raise":
            raise
        others = [member for member in group.members if not member.is_in(error)]
    # The error is freed by now, and with it the arrays that its traceback kept.
    drain(group.members)
    return work(others or group.members)
