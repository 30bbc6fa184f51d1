"""Launches of a call that are recorded, and kernel objects that repeat them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.runtime.launch import BoundKernel
from portable_gpu.runtime.plan import Plan, Steps
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.views import Memory, memory_of

_Places = list[tuple[Any, int]]  # the function that sets an argument, and the argument's index
#: Replaces the memory of a buffer before the first call.
NO_MEMORY = Memory(0)
#: The most bytes of a piece of workspace that stays with the kernel objects of a remembered call,
#: because the pool takes 0.5 us: a transform of 1024 complex64 on PoCL takes 8.8 us, and 10.2 with
#: pieces from the pool.  A queue remembers 4096 calls, so if each has two pieces, at most 128 MiB
#: stay until calls are forgotten, and as many again where calls run on the calling thread.
KEPT = 16 << 10


@dataclass(frozen=True, eq=False)
class _WorkspaceRequest:
    """Workspace in a recorded launch, for which each call allocates its own memory."""

    nbytes: int


class Recording(QueueState):
    """Replaces the state of an in-order queue, and records launches.

    In the recorded launches an operand is its index, and workspace a :class:`_WorkspaceRequest`.
    """

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self.in_order = True
        self.empty_buffer = state.empty_buffer
        self.recording = []
        self.workspaces: list[_WorkspaceRequest] = []

    def workspace(self, nbytes: int) -> Any:
        """See :meth:`QueueState.workspace`."""
        self._state.engine.check_allocation(nbytes)
        self.workspaces.append(_WorkspaceRequest(nbytes))
        return self.workspaces[-1]

    def counters_and_partials(self, counters: int, nbytes: int) -> tuple[Any, Any]:
        """See :meth:`QueueState.counters_and_partials`."""
        return self._state.counters_and_partials(counters, nbytes)

    def buffers(self) -> Iterator[Any]:
        """Return the constant buffers of the launches."""
        for launch, buffers, _ in self.recording or ():
            yield from launch.constant_buffers
            for buffer in buffers:
                if not isinstance(buffer, (int, _WorkspaceRequest)):
                    yield buffer

    @classmethod
    def of(
        cls, plan: Plan, state: QueueState, offsets: tuple[int, ...], scalars: tuple[Any, ...]
    ) -> Recording:
        """The launches of a plan whose operands begin at ``offsets`` (in elements)."""
        recording = cls(state)
        plan.enqueue(recording, range(len(offsets)), offsets, scalars)
        return recording


class Kernels:
    """A kernel object for each launch of a call; only one call uses them at a time.

    Attributes:
        launches: The kernel objects, and the arguments that enqueue them without an event.
        places: The arguments that each operand is set to.
        workspaces: The bytes of each piece of workspace that a call allocates, and the arguments
            that it is set to.
        memories: The memory of each operand's last buffer.
        offsets, scalars: The offset of each operand in bytes, and the scalars, as they are set.
    """

    __slots__ = ("_staying", "launches", "memories", "offsets", "places", "scalars", "workspaces")

    def __init__(
        self,
        state: QueueState,
        recorded: Recording,
        offsets: list[int],
        scalar_values: tuple[Any, ...],
        by_address: bool = False,
        svm_of: Callable[[Any], cl.SVM[Any]] | None = None,
    ) -> None:
        """Make the kernel objects of a recording.

        Args:
            state: The queue on which they are enqueued.
            recorded: The launches.
            offsets, scalar_values: Those of the recording.
            by_address: Whether operands are addresses, not buffers.
            svm_of: Returns the address of a buffer, where the plan is of another engine, whose
                buffers have addresses.
        """
        self.launches: list[tuple[BoundKernel, tuple[Any, ...]]] = []
        # Kernels do not keep buffers alive, and a state may replace its buffer of partial results.
        self._staying: list[Any] = []
        self.places: list[_Places] = [[] for _ in offsets]
        places: dict[_WorkspaceRequest, _Places] = {
            workspace: [] for workspace in recorded.workspaces
        }
        for launch, buffers, scalars in recorded.recording or ():
            bound = (
                launch.bind()
                if svm_of is None
                else launch.bind_elsewhere(state.engine.programs, svm_of)
            )
            bound.set_scalars(scalars)
            self.launches.append((bound, (state.pointer, *bound.without_event)))
            for index, buffer in zip(launch.places, buffers, strict=True):
                if isinstance(buffer, int):
                    setter = bound.set_address if by_address else bound.set_argument
                    self.places[buffer].append((setter, index))
                elif isinstance(buffer, _WorkspaceRequest):
                    places[buffer].append((bound.set_argument, index))
                else:
                    if svm_of is None or buffer.context == state.engine.context:
                        bound.set_argument(index, buffer)
                    else:
                        bound.set_address(index, svm_of(buffer))
                    self._staying.append(buffer)
        self.workspaces: list[tuple[int, _Places]] = []
        for workspace, argument_places in places.items():
            if workspace.nbytes > KEPT:
                self.workspaces.append((workspace.nbytes, argument_places))
                continue
            memory = state.engine.allocate(workspace.nbytes)
            for set_argument, index in argument_places:
                set_argument(index, memory)
            self._staying.append(memory)
        self.memories = [NO_MEMORY for _ in offsets]
        self.offsets, self.scalars = offsets, scalar_values

    def move(self, recorded: Recording, offsets: list[int], scalar_values: tuple[Any, ...]) -> None:
        """Set the scalars of another recording."""
        for (bound, _), (_, _, scalars) in zip(
            self.launches, recorded.recording or (), strict=True
        ):
            bound.set_scalars(scalars)
        self.offsets, self.scalars = offsets, scalar_values

    def take_workspaces(self, state: QueueState) -> list[Any]:
        """Allocate all workspace from the queue's pool, so that no two pieces share memory."""
        workspaces = []
        for nbytes, places in self.workspaces:
            workspace = state.from_pool(nbytes)
            workspaces.append(workspace)
            for set_argument, index in places:
                set_argument(index, workspace)
        return workspaces

    def enqueue(self, state: QueueState) -> cl.Event | None:
        """Enqueue the launches, and return the event of the last one if it has one.

        Raises:
            DeviceMemoryError: The driver cannot allocate the memory of a buffer.
        """
        enqueue, queue, event = state.enqueue_without_event, state.queue, None
        try:
            for bound, without_event in self.launches:
                event = None
                if enqueue is None or enqueue(*without_event):
                    event = cl.enqueue_nd_range_kernel(queue, bound.kernel, *bound.sizes)
        except cl.MemoryError as error:
            raise DeviceMemoryError(f"the device is out of memory: {error}") from error
        return event


class RepeatedSteps:
    """Steps that one queue repeats, whose launches are recorded by the second call.

    A launch takes the host about a fifth of the time of a plan's, which counts where thousands of
    short kernels follow each other.  A first call is not recorded, because a kernel object for each
    launch takes longer.  One call at a time.
    """

    def __init__(self, plan: Steps) -> None:
        """Record nothing yet."""
        self._plan = plan
        self._has_run = False
        self._offsets: tuple[int, ...] | None = None
        self._kernels: list[tuple[Kernels, list[int]]] = []

    def enqueue(
        self, state: QueueState, buffers: Sequence[Any], offsets: tuple[int, ...]
    ) -> cl.Event | None:
        """See :meth:`portable_gpu.runtime.plan.Plan.enqueue`; the queue is in order.

        Buffers that are the same objects as before are not set anew.
        """
        if not self._has_run:
            self._has_run = True
            return self._plan.enqueue(state, buffers, offsets)
        if offsets != self._offsets:
            self._kernels = self._recorded(state, offsets)
        # If the call raises, the arguments of the kernel objects are unknown.
        self._offsets = None
        nbytes = self._plan.temporary_bytes
        operands = [*buffers, *([state.workspace(nbytes)] if nbytes else [])]
        memories = [memory_of(operand) for operand in operands]
        event = None
        for kernels, indices in self._kernels:
            for k, index in enumerate(indices):
                if kernels.memories[k] is not memories[index]:
                    for set_argument, place in kernels.places[k]:
                        set_argument(place, operands[index])
                    kernels.memories[k] = memories[index]
            workspaces = kernels.take_workspaces(state)
            event = kernels.enqueue(state)
            del workspaces  # the next step may use the same memory
        self._offsets = offsets
        return event

    def _recorded(
        self, state: QueueState, offsets: tuple[int, ...]
    ) -> list[tuple[Kernels, list[int]]]:
        """Return the launches of each step, and the indices of its operands."""
        result = []
        steps = zip(self._plan.steps, self._plan.located(offsets), strict=True)
        for step, operands in steps:
            step_offsets = tuple([offset for _, offset in operands])
            recorded = Recording.of(step.plan, state, step_offsets, step.scalars)
            kernels = Kernels(state, recorded, list(step_offsets), step.scalars)
            temporary = len(offsets)
            indices = [temporary if index is None else index for index, _ in operands]
            result.append((kernels, indices))
        return result
