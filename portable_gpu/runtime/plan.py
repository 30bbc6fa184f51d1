"""Plans: what can be enqueued, and plans made of plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from portable_gpu.runtime.queue_state import QueueState

#: What a temporary's place in the workspace is a multiple of, in bytes: no kernel asks for more.
ALIGNMENT = 256


class Plan(ABC):
    """A problem bound to a device: kernels built, launches bound.

    It is built once and enqueued from any thread.  It holds no memory: each call takes its
    workspace from the queue's pool, because calls on two queues may run at the same time.

    Attributes:
        flop: Operations of a call.
        bytes: The least global traffic of a call.
        workspace_bytes: Memory that a call takes besides its operands.
        kept_bytes: Memory of the tables that it keeps on the device.
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
            buffers, offsets: Of the inputs, then of the outputs; offsets count elements.
            scalars: The values that may differ from call to call (alpha and beta of a product).
            wait_for: Events to wait for.

        Returns:
            The event that covers all its kernels, if there is one: see :meth:`QueueState.event`.

        Raises:
            DeviceMemoryError: There is no room for the workspace.
        """


@dataclass(frozen=True)
class Temporary:
    """An array that one step writes and later ones read.

    Attributes:
        name: What tells it apart from the others of a plan.
        nbytes: Its size.
        itemsize: Bytes of its elements, which offsets count.
    """

    name: str
    nbytes: int
    itemsize: int


@dataclass(frozen=True)
class Part:
    """An operand that begins further on.

    Attributes:
        of: An operand of the whole by its position, or a temporary.
        start: How many elements further on.
    """

    of: int | Temporary
    start: int


@dataclass(frozen=True)
class Step:
    """A plan within :class:`Steps`.

    Attributes:
        plan: What is enqueued.
        operands: Its inputs, then its outputs: an operand of the whole by its position, a
            temporary, or a part of one.
        takes_scalars: Whether the scalars of the whole are its own.
        scalars: Those that it takes otherwise.
    """

    plan: Plan
    operands: tuple[int | Temporary | Part, ...]
    takes_scalars: bool = False
    scalars: tuple[Any, ...] = ()

    @property
    def wholes(self) -> list[int | Temporary]:
        """What its operands are, or are parts of."""
        return [one.of if isinstance(one, Part) else one for one in self.operands]


class Steps(Plan):
    """Plans one after the other, with temporaries that share one piece of workspace.

    Temporaries that are not needed at the same time lie in the same place.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self.flop = sum(step.plan.flop for step in steps)
        self.bytes = sum(step.plan.bytes for step in steps)
        self.kept_bytes = sum(step.plan.kept_bytes for step in steps)
        places, self._nbytes = arrange([step.wholes for step in steps])
        self.workspace_bytes = self._nbytes + max(
            (step.plan.workspace_bytes for step in steps), default=0
        )
        self._operands = [[_located(one, places) for one in step.operands] for step in steps]

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
        """As :meth:`enqueue`: each step once it is enqueued, with its event."""
        space = state.workspace(self._nbytes) if self._nbytes else None
        for step, operands in zip(self.steps, self._operands, strict=True):
            event = step.plan.enqueue(
                state,
                [space if whole is None else buffers[whole] for whole, _ in operands],
                tuple([at if whole is None else offsets[whole] + at for whole, at in operands]),
                scalars if step.takes_scalars else step.scalars,
                wait_for,
            )
            wait_for = state.after(event)
            yield step, event


def _located(
    operand: int | Temporary | Part, places: dict[Temporary, int]
) -> tuple[int | None, int]:
    """Which operand of the whole, or ``None`` for the workspace, and how many elements further."""
    whole, start = (operand.of, operand.start) if isinstance(operand, Part) else (operand, 0)
    if isinstance(whole, Temporary):
        return None, places[whole] // whole.itemsize + start
    return whole, start


def arrange(
    operands: Sequence[Iterable[int | Temporary]],
) -> tuple[dict[Temporary, int], int]:
    """Where temporaries lie in a workspace, and how many bytes it takes.

    Each is needed from the first to the last step that names it.  Large ones are placed first, each
    at the lowest place that is free in all its steps.

    Args:
        operands: Of each step.
    """
    lives: dict[Temporary, tuple[int, int]] = {}
    for number, step in enumerate(operands):
        for one in step:
            if isinstance(one, Temporary):
                first, _ = lives.get(one, (number, number))
                lives[one] = first, number
    places: dict[Temporary, int] = {}
    for one in sorted(lives, key=lambda temporary: -temporary.nbytes):
        first, last = lives[one]
        start = 0
        for other in sorted(places, key=places.__getitem__):
            begin, end = lives[other]
            apart = last < begin or end < first
            if not apart and start + one.nbytes > places[other]:
                start = max(start, _end(other, places))
        places[one] = start
    return places, max((_end(one, places) for one in places), default=0)


def _end(one: Temporary, places: dict[Temporary, int]) -> int:
    """The first multiple of :data:`ALIGNMENT` behind a temporary."""
    return -(-(places[one] + one.nbytes) // ALIGNMENT) * ALIGNMENT
