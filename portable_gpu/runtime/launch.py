"""Launches of kernels: their constant arguments, and kernel objects for concurrent callers."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.arguments import Arguments
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import DeviceMemoryError
from portable_gpu.runtime.inside_pyopencl import address_setter, scalar_setter

if TYPE_CHECKING:
    from portable_gpu.runtime.program import ProgramCache
    from portable_gpu.runtime.queue_state import QueueState

Sizes = tuple[tuple[int, ...], tuple[int, ...]]  # grid, group

_MAX_WAIT = 0.1  # seconds that a launch which compiles waits for the commands before it


class BoundKernel:
    """A kernel object with its constant arguments; one caller uses it at a time.

    Attributes:
        kernel, sizes: The kernel object; its grid and group.
        set_argument, set_address: Set a buffer, and shared virtual memory, by the index of the
            parameter.
        without_event: The arguments of ``clEnqueueNDRangeKernel`` after the queue.
    """

    __slots__ = (
        "_integers", "_place", "_places", "_scalars", "_set_scalar", "kernel", "set_address",
        "set_argument", "sizes", "without_event",
    )  # fmt: skip

    def __init__(
        self,
        kernel: cl.Kernel,
        arguments: Arguments,
        sizes: Sizes,
        svm_of: Callable[[Any], cl.SVM[Any]] | None = None,
    ) -> None:
        """Set the constant arguments.

        Args:
            kernel, arguments, sizes: The kernel object, its arguments, its grid and group.
            svm_of: Returns the address of a constant buffer, where the buffer is of another context
                than the kernel.
        """
        self.kernel, self.sizes = kernel, sizes
        self.set_argument, self.set_address = kernel.set_arg, address_setter(kernel)
        self._set_scalar = scalar_setter(kernel)
        place, dtype = arguments.integers or (-1, np.dtype([]))
        self._integers, self._place = np.zeros((), dtype), place
        for index, value in arguments.constants:
            if isinstance(index, str):
                self._integers[index] = value
            else:
                self._set_scalar(index, value)
        for index, buffer in arguments.bound:
            if svm_of is None:
                kernel.set_arg(index, buffer)
            else:
                self.set_address(index, svm_of(buffer))
        grid, group = ((ctypes.c_size_t * len(size))(*size) for size in sizes)
        pointer, count = ctypes.c_void_p(kernel.int_ptr), ctypes.c_uint
        self.without_event = (
            pointer, count(len(grid)), None, grid, group, count(0), None, None
        )  # fmt: skip
        self._places = arguments.scalars
        self._scalars: Sequence[Any] | None = None

    def set_scalars(self, values: Sequence[Any]) -> None:
        """Set the scalars of a call that differ from those of the call before.

        Zeros of both signs are equal here; plans for which the sign matters pass bits instead.
        """
        present = self._scalars
        if values == present:
            return
        changed = present is None and self._place >= 0
        for k, ((index, kind), value) in enumerate(zip(self._places, values, strict=True)):
            if present is not None and value == present[k]:
                continue
            if isinstance(index, str):
                self._integers[index] = kind(value)
                changed = True
            else:
                self._set_scalar(index, kind(value))
        if changed:
            self._set_scalar(self._place, self._integers)
        self._scalars = values


class Launch:
    """A kernel with its grid and its constant arguments; calls pass buffers and a few scalars.

    Threads may call it at the same time, and so may a signal handler or a finalizer within a call:
    each call uses a kernel object that no other call uses, and makes one if there is none.
    """

    def __init__(
        self,
        make: Callable[[], cl.Kernel],
        arguments: Arguments,
        sizes: Sizes,
        source: tuple[Specialization, str] | None = None,
    ) -> None:
        """Bind the constant arguments.

        Args:
            make: Makes a new object of the kernel.
            arguments: The constant arguments, and the indices of those that calls pass.
            sizes: The grid, and its group.
            source: The text and the name of the kernel, from which another engine can build it.
        """
        self._make, self._arguments, self._sizes = make, arguments, sizes
        self._source = source
        #: The indices of the parameters for buffers.
        self.places = arguments.buffers
        self._idle = [self.bind()]

    def bind(self) -> BoundKernel:
        """Make a kernel object for one caller."""
        return BoundKernel(self._make(), self._arguments, self._sizes)

    def bind_elsewhere(
        self, programs: ProgramCache, svm_of: Callable[[Any], cl.SVM[Any]]
    ) -> BoundKernel:
        """Make an object of the same kernel for another device, which reads the same memory.

        Args:
            programs: The programs of that device.
            svm_of: Returns the address of a constant buffer.
        """
        assert self._source is not None
        return BoundKernel(programs.kernel(*self._source), self._arguments, self._sizes, svm_of)

    @property
    def constant_buffers(self) -> list[Any]:
        """The buffers that are the same in all launches."""
        return [buffer for _, buffer in self._arguments.bound]

    def __call__(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """Enqueue it and return its event, or ``None``; see :meth:`QueueState.event`.

        Args:
            state: The queue.
            buffers, scalars: The other arguments, in the order of the names given before.
            wait_for: Events to wait for.

        Raises:
            DeviceMemoryError: The driver cannot allocate a buffer that it had accepted.
        """
        if state.recording is not None:
            state.recording.append((self, buffers, scalars))
            return None
        try:
            bound = self._idle.pop()
        except IndexError:  # all are in use
            bound = self.bind()
        # A call that raises does not put its object back, as its arguments may be partly set.
        set_argument, set_address = bound.set_argument, bound.set_address
        try:
            for index, buffer in zip(self.places, buffers, strict=True):
                (set_address if type(buffer) is cl.SVM else set_argument)(index, buffer)
            bound.set_scalars(scalars)
            event, enqueue = None, state.enqueue_without_event
            if enqueue is None or wait_for or enqueue(state.pointer, *bound.without_event):
                event = cl.enqueue_nd_range_kernel(  # where that one failed, pyopencl says why
                    state.queue, bound.kernel, *self._sizes, None, wait_for
                )
        except cl.MemoryError as error:
            raise DeviceMemoryError(f"the device is out of memory: {error}") from error
        self._idle.append(bound)
        return event


class LaunchThatCompiles(Launch):
    """A launch of a kernel that PoCL compiles when it first runs.

    Attributes:
        first_run: See :meth:`ProgramCache.first_run`; ``None`` once the kernel has run.
    """

    first_run: Callable[..., cl.Event | None] | None = None

    def __call__(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :class:`Launch`."""
        run, first_run = super().__call__, self.first_run
        if first_run is None or state.recording is not None or not _is_next(state, wait_for):
            return run(state, buffers, scalars, wait_for)
        event = first_run(state, partial(run, state, buffers, scalars, wait_for))
        self.first_run = None
        return event


def _is_next(state: QueueState, wait_for: Sequence[cl.Event] | None) -> bool:
    """Return whether a command would start at once, or within :data:`_MAX_WAIT` seconds.

    Else it may wait for an event that the caller sets only after the call.
    """
    marker = cl.enqueue_marker(state.queue, wait_for or None)
    state.queue.flush()
    end = time.monotonic() + _MAX_WAIT
    while (status := marker.command_execution_status) > cl.command_execution_status.COMPLETE:
        if time.monotonic() > end:
            return False
        time.sleep(1e-4)
    return bool(status == cl.command_execution_status.COMPLETE)
