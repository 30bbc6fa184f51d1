"""Memory of small results, which repeated calls use again when Python has dropped the results.

Memory to which no Python object refers goes back to the pool of its queue.  A repeated call keeps
two pieces of memory instead, because a loop drops a result only after it has the next one.  Then
it allocates nothing, and the :class:`~portable_gpu.runtime.views.Memory` that is cached for a piece
stays valid.  As with the pool, commands of the same queue that use a dropped result precede those
of the next call, and commands of other queues refer to the array that they use.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.recording import KEPT


def _unused(pieces: list[Any], references: int) -> Any:
    """Return the first piece with this number of references, those of this function included."""
    for piece in pieces:
        if getrefcount(piece) == references:
            return piece
    return None


def _count_when_unused() -> int:
    """Return the number of references that :func:`_unused` counts for an unused piece."""
    pieces, references = [object()], 1
    while _unused(pieces, references) is None:
        references += 1
    return references


_UNUSED = _count_when_unused()


class KeptMemory:
    """The memory of one result of a repeated call, which several threads may make.

    Two pieces are kept for each thread that makes the call at the same time as others.

    Attributes:
        is_kept: Whether pieces are kept: they have at most
            :data:`~portable_gpu.runtime.recording.KEPT` bytes.
    """

    __slots__ = ("_free", "_nbytes", "is_kept")

    def __init__(self, nbytes: int) -> None:
        """Begin without pieces.

        Args:
            nbytes: The bytes of the result.
        """
        self._nbytes, self.is_kept = nbytes, nbytes <= KEPT
        self._free: list[list[Any]] = []  # lists of pieces that no thread searches now

    def take(self, state: QueueState) -> Any:
        """Return memory to which nothing else refers; each call must pass the same ``state``.

        Raises:
            DeviceMemoryError: New memory cannot be allocated.
        """
        if not (self.is_kept and state.engine.keeps_results):
            return state.allocate(self._nbytes)
        try:
            pieces = self._free.pop()
        except IndexError:
            pieces = []
        piece = _unused(pieces, _UNUSED)
        if piece is None:
            piece = state.allocate(self._nbytes)
            pieces = [*pieces[-1:], piece]
        self._free.append(pieces)
        return piece
