"""A device of a group: its engine, queues for copies, and an account of its memory."""

from __future__ import annotations

import itertools
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from math import prod
from typing import Any, Protocol, TypeGuard

import numpy as np
import pyopencl as cl

from portable_gpu.errors import DeviceFailedError, DeviceMemoryError
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.layout import Shape
from portable_gpu.runtime.registry import STATE

#: Errors of a device, and not of arguments.
DEVICE_ERRORS = (DeviceMemoryError, DeviceFailedError, cl.Error)
#: The attribute of a buffer's Python object that is freed with it.
_LIFETIME = "_portable_gpu_lifetime"


class SpanRecorder(Protocol):
    """A recorder of the work of a device; see :mod:`portable_gpu.multi.timeline`."""

    def span(
        self, name: str, queue: cl.CommandQueue | None, nbytes: int
    ) -> AbstractContextManager[None]:
        """See :meth:`Member.recorded`."""

    def copied(self, name: str, begin: float, nbytes: int) -> None:
        """Record a copy that began at a time of ``time.perf_counter`` and ends now."""


#: What :meth:`Member.recorded` returns where no timeline is recorded.
_NOT_RECORDED = nullcontext()


@contextmanager
def _recorded(spans: Sequence[AbstractContextManager[None]]) -> Iterator[None]:
    """Record the block of the ``with`` statement by all spans."""
    with ExitStack() as stack:
        for span in spans:
            stack.enter_context(span)
        yield


class _NamedErrors:
    """The context manager of :meth:`Member.named_errors`, which has no state of its own.

    One of a generator costs 2 us more, and a call on a group has several for each block.
    """

    __slots__ = ("_member",)

    def __init__(self, member: Member) -> None:
        self._member = member

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, DEVICE_ERRORS) and not self._member.is_named(error):
            # No variable of this frame has the new error, whose traceback has the frame: what the
            # other frames hold is freed with the error, and not when Python's collector runs.
            raise self._member.named(error) from error


class _Lifetime:
    """An object that is freed together with a buffer of pyopencl."""


class Member:
    """A device of a group.

    Attributes:
        index: Its number in the group.
        engine: Its engine, with a context and a queue of its own.
        recorders: The recorders of the device's part of each timeline that is recorded.
        limit: The maximum bytes of the group's arrays on the device.
    """

    def __init__(self, index: int, engine: Engine, limit: int) -> None:
        self.index, self.engine, self.limit = index, engine, limit
        engine.keeps_results = False  # memory that a call kept would count as an array's
        setattr(engine.queue, STATE, engine.state())  # so that an array's methods take this engine
        self._copies: cl.CommandQueue | None = None
        self._sends: cl.CommandQueue | None = None
        self._lock = threading.Lock()
        self.recorders: list[SpanRecorder] = []
        self._named_errors = _NamedErrors(self)
        # Of each array; without callbacks, in which a signal handler could raise an exception.
        self._arrays: dict[int, tuple[weakref.ref[_Lifetime], int]] = {}
        self._numbers = itertools.count()

    def __repr__(self) -> str:
        return f"<Member {self.index} {self.name!r}>"

    @property
    def name(self) -> str:
        """The name of the device."""
        return self.engine.target.facts.name

    @property
    def copies(self) -> cl.CommandQueue:
        """A second queue, for copies that run under kernels."""
        if self._copies is None:
            with self.named_errors():
                queue = cl.CommandQueue(self.engine.context, self.engine.device)
                setattr(queue, STATE, self.engine.state(queue))
            with self._lock:
                self._copies = self._copies or queue
        return self._copies

    @property
    def sends(self) -> cl.CommandQueue:
        """A third queue, for copies to the host whose values another device receives."""
        if self._sends is None:
            with self.named_errors():
                queue = cl.CommandQueue(self.engine.context, self.engine.device)
            with self._lock:
                self._sends = self._sends or queue
        return self._sends

    @property
    def queues(self) -> tuple[cl.CommandQueue, ...]:
        """Its queues that exist: for kernels, for copies, and for those that others receive."""
        queues = self.engine.queue, self._copies, self._sends
        return tuple([queue for queue in queues if queue is not None])

    @property
    def used(self) -> int:
        """The bytes of the group's arrays that exist on the device."""
        arrays = list(self._arrays.values())
        return sum(nbytes for reference, nbytes in arrays if reference() is not None)

    @property
    def free(self) -> int:
        """The bytes that are left of the limit."""
        return self.limit - self.used

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """Allocate an array of the device that is not filled.

        Raises:
            DeviceMemoryError: The limit or the device's memory does not suffice.
        """
        return self._allocated(shape, dtype, self.engine.allocate)

    def pooled(self, shape: Sequence[int], dtype: Any) -> Array:
        """Allocate an array in memory of the pool of the engine's queue.

        Later commands of this queue use the memory again once it is dropped, so other queues may
        use it only after :meth:`copies_after_kernels`, and only until the host has waited for them.
        Memory that is not of a pool is freed when it is dropped, and NVIDIA's driver waits for all
        kernels of the device then; this includes arrays above 1/64 of the device's memory.

        Raises:
            DeviceMemoryError: See :meth:`empty`.
        """
        return self._allocated(shape, dtype, self.engine.state().allocate)

    def _allocated(
        self, shape: Sequence[int], dtype: Any, allocate: Callable[[int], cl.Buffer]
    ) -> Array:
        extents: Shape = tuple(shape)
        kind = np.dtype(dtype)
        nbytes = prod(extents) * kind.itemsize
        self.check(nbytes)
        with self.named_errors():
            data = allocate(nbytes) if nbytes else None
        return self.count(Array(self.engine.queue, extents, kind, data=data))

    def check(self, nbytes: int) -> None:
        """Check that the limit admits a further array of ``nbytes``.

        Raises:
            DeviceMemoryError: It does not.
        """
        if nbytes > self.free:
            raise DeviceMemoryError(
                f"device {self.index} ({self.name}): {nbytes} bytes are asked for, and {self.free} "
                f"of its {self.limit} are free; pass fewer or smaller arrays, or more devices"
            )

    def count(self, array: Array) -> Array:
        """Count the memory of a new array as used for as long as it exists; return the array."""
        if array.nbytes:
            lifetime = _Lifetime()
            # pyopencl's buffers have no weak references.
            setattr(array.base_data, _LIFETIME, lifetime)
            for number, (reference, _) in list(self._arrays.items()):
                if reference() is None:
                    self._arrays.pop(number, None)
            self._arrays[next(self._numbers)] = weakref.ref(lifetime), array.nbytes
        return array

    def named(self, error: Exception) -> DeviceMemoryError | DeviceFailedError:
        """Return an error of the device with its name and its free memory."""
        if self.is_named(error):
            return error
        lacks_memory = isinstance(error, (MemoryError, cl.MemoryError))
        kind = DeviceMemoryError if lacks_memory else DeviceFailedError
        return kind(
            f"device {self.index} ({self.name}, {self.free} of {self.limit} bytes free): {error}"
        )

    def is_named(self, error: Exception) -> TypeGuard[DeviceMemoryError | DeviceFailedError]:
        """Return whether an error of the device has its name."""
        kinds = (DeviceMemoryError, DeviceFailedError)
        return isinstance(error, kinds) and str(error).startswith(f"device {self.index} (")

    def is_in(self, error: Exception) -> bool:
        """Return whether the device failed: an error names it last.

        The text of a block's error names the block's device first.  Another one after it failed
        while its values were copied.
        """
        named: list[str] = re.findall(r"\bdevice (\d+) \(", str(error))
        return named[-1:] == [str(self.index)]

    def named_errors(self) -> AbstractContextManager[None]:
        """Raise errors of the device in the block of the ``with`` statement with its name.

        Raises:
            DeviceMemoryError, DeviceFailedError: See :meth:`named`.
        """
        return self._named_errors

    def recorded(
        self, name: str, queue: cl.CommandQueue | None, nbytes: int = 0
    ) -> AbstractContextManager[None]:
        """Record what the block of the ``with`` statement does in each timeline that is recorded.

        Args:
            name: The name of the work.
            queue: The queue of the kernels that it enqueues; ``None``: it waits for what it does.
            nbytes: The bytes that it copies.
        """
        if not self.recorders:
            return _NOT_RECORDED
        return _recorded([recorder.span(name, queue, nbytes) for recorder in [*self.recorders]])

    def kernels_after_copies(self) -> None:
        """Let kernels that are enqueued from now on wait for the copies so far."""
        with self.named_errors():
            copied = cl.enqueue_marker(self.copies)
            self.copies.flush()
            cl.enqueue_barrier(self.engine.queue, wait_for=[copied])

    def copies_after_kernels(self) -> None:
        """Let copies to the device that are enqueued from now on wait for the kernels so far."""
        with self.named_errors():
            done = cl.enqueue_marker(self.engine.queue)
            self.engine.queue.flush()
            cl.enqueue_barrier(self.copies, wait_for=[done])

    def finish(self) -> None:
        """Wait for all commands of its queues."""
        for queue in self.queues:
            queue.finish()
