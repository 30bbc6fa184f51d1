"""Plans: bound launches that can be enqueued, and plans composed of plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from portable_gpu.runtime.queue_state import QueueState

#: The alignment of temporaries in the workspace, in bytes: the largest that a kernel needs.
ALIGNMENT = 256


class Plan(ABC):
    """A problem bound to a device: kernels built, launches bound.

    It is built once and enqueued from any thread.  It holds no memory: each call takes its
    workspace from the queue's pool, because calls on two queues may run at the same time.

    Attributes:
        flop: Operations of a call.
        bytes: The least global traffic of a call.
        workspace_bytes: Memory that a call takes in addition to its operands.
        kept_bytes: Memory of its tables on the device.
    """

    flop: int = 0
    bytes: int = 0
    workspace_bytes: int = 0
    kept_bytes: int = 0

    @abstractmethod
    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """Enqueue all its kernels.

        Args:
            state: The queue.
            buffers, offsets: Those of the inputs, then of the outputs; offsets in elements.
            scalars: The values that may differ from call to call (alpha and beta of a product).
            wait_for: Events to wait for.

        Returns:
            The event that covers all its kernels, if there is one: see :meth:`QueueState.event`.

        Raises:
            DeviceMemoryError: The workspace cannot be allocated.
        """


@dataclass(frozen=True)
class Temporary:
    """An array that one step writes and later ones read.

    Attributes:
        name: Its name, unique in a plan.
        nbytes: Its size.
        itemsize: Bytes of an element, the unit of offsets.
    """

    name: str
    nbytes: int
    itemsize: int


@dataclass(frozen=True)
class Part:
    """An operand at an offset.

    Attributes:
        of: The index of an operand of the whole plan, or a temporary.
        start: The offset, in elements.
    """

    of: int | Temporary
    start: int


@dataclass(frozen=True)
class Step:
    """A plan within :class:`Steps`.

    Attributes:
        plan: The plan that is enqueued.
        operands: Its inputs, then its outputs: the index of an operand of the whole plan, a
            temporary, or a part of one.
        takes_scalars: Whether it takes the scalars of the whole plan.
        scalars: The scalars that it takes otherwise.
    """

    plan: Plan
    operands: tuple[int | Temporary | Part, ...]
    takes_scalars: bool = False
    scalars: tuple[Any, ...] = ()

    @property
    def wholes(self) -> list[int | Temporary]:
        """The operands without their offsets."""
        return [x.of if isinstance(x, Part) else x for x in self.operands]


class Steps(Plan):
    """Plans in sequence, with temporaries in one workspace.

    Temporaries that are not needed at the same time share memory.

    Attributes:
        steps: The plans, with their operands.
        temporary_bytes: The bytes of all temporaries.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self.flop = sum(step.plan.flop for step in steps)
        self.bytes = sum(step.plan.bytes for step in steps)
        self.kept_bytes = sum(step.plan.kept_bytes for step in steps)
        places, self.temporary_bytes = arrange([step.wholes for step in steps])
        self.workspace_bytes = self.temporary_bytes + max(
            (step.plan.workspace_bytes for step in steps), default=0
        )
        self._operands = [[_located(x, places) for x in step.operands] for step in steps]

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`."""
        last: cl.Event | None = None
        for _, event in self.enqueued(state, buffers, offsets, scalars, wait_for):
            last = event
        return last

    def enqueued(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Iterator[tuple[Step, cl.Event | None]]:
        """Enqueue the steps, and yield each with its event: see :meth:`enqueue`."""
        space = state.workspace(self.temporary_bytes) if self.temporary_bytes else None
        for step, operands in zip(self.steps, self.located(offsets), strict=True):
            event = step.plan.enqueue(
                state,
                [space if whole is None else buffers[whole] for whole, _ in operands],
                tuple([at for _, at in operands]),
                scalars if step.takes_scalars else step.scalars,
                wait_for,
            )
            wait_for = state.after(event)
            yield step, event

    def located(self, offsets: Sequence[int]) -> Iterator[list[tuple[int | None, int]]]:
        """Yield for each step the index of each operand, and its offset in elements.

        The index of a temporary is ``None``, and its offset is that in the memory of all of them.

        Args:
            offsets: The offsets of the operands of the whole plan.
        """
        for operands in self._operands:
            yield [(whole, at if whole is None else offsets[whole] + at) for whole, at in operands]


def _located(
    operand: int | Temporary | Part, places: dict[Temporary, int]
) -> tuple[int | None, int]:
    """Return the index of the operand, ``None`` for the workspace, and the offset in elements."""
    whole, start = (operand.of, operand.start) if isinstance(operand, Part) else (operand, 0)
    if isinstance(whole, Temporary):
        return None, places[whole] // whole.itemsize + start
    return whole, start


def arrange(
    operands: Sequence[Iterable[int | Temporary]],
) -> tuple[dict[Temporary, int], int]:
    """Place temporaries in a workspace; return their offsets, and the size of the workspace.

    Each is needed from the first to the last step that uses it.  Large ones are placed first, each
    at the lowest offset that is free in all its steps.

    Args:
        operands: The operands of each step.
    """
    lives: dict[Temporary, tuple[int, int]] = {}
    for number, step in enumerate(operands):
        for temporary in step:
            if isinstance(temporary, Temporary):
                first, _ = lives.get(temporary, (number, number))
                lives[temporary] = first, number
    places: dict[Temporary, int] = {}
    for temporary in sorted(lives, key=lambda temporary: -temporary.nbytes):
        first, last = lives[temporary]
        start = 0
        for other in sorted(places, key=places.__getitem__):
            begin, end = lives[other]
            apart = last < begin or end < first
            if not apart and start + temporary.nbytes > places[other]:
                start = max(start, _end(other, places))
        places[temporary] = start
    return places, max((_end(temporary, places) for temporary in places), default=0)


def _end(temporary: Temporary, places: dict[Temporary, int]) -> int:
    """The first multiple of :data:`ALIGNMENT` after a temporary."""
    return -(-(places[temporary] + temporary.nbytes) // ALIGNMENT) * ALIGNMENT
