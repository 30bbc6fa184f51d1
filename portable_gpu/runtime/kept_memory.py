"""Memory of small results that repeated calls take again once it is dropped.

The memory of a result goes back to the pool of its queue when no Python object refers to it any
more.  A repeated call keeps two pieces instead: in a loop the last result is dropped when the next
one exists.  So it needs no allocation, and the :class:`~portable_gpu.runtime.views.Memory` of the
piece stays known.  What holds for the pool holds here: commands of the same queue that use a
dropped result precede the next call, and those of other queues keep its array.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.recording import KEPT


def _unused(pieces: list[Any], alone: int) -> Any:
    """Return the first piece with at most ``alone`` references, with those of this function."""
    for piece in pieces:
        if getrefcount(piece) <= alone:
            return piece
    return None


def _references() -> int:
    """Return the number of references that :func:`_unused` counts for an unused piece."""
    pieces, alone = [object()], 1
    while _unused(pieces, alone) is None:
        alone += 1
    return alone


_ALONE = _references()


class KeptMemory:
    """The memory of one result of a repeated call; any thread may take from it.

    Attributes:
        is_kept: Whether pieces are kept: they have at most
            :data:`~portable_gpu.runtime.recording.KEPT` bytes.
    """

    __slots__ = ("_idle", "_nbytes", "is_kept")

    def __init__(self, nbytes: int) -> None:
        """Keep nothing yet.

        Args:
            nbytes: The bytes of the result.
        """
        self._nbytes, self.is_kept = nbytes, nbytes <= KEPT
        self._idle: list[list[Any]] = []  # lists of pieces that no call is looking through

    def take(self, state: QueueState) -> Any:
        """Return memory to which nothing else refers; ``state`` is always the same.

        Raises:
            DeviceMemoryError: New memory cannot be allocated.
        """
        if not (self.is_kept and state.engine.keeps_results):
            return state.allocate(self._nbytes)
        try:
            pieces = self._idle.pop()
        except IndexError:
            pieces = []
        piece = _unused(pieces, _ALONE)
        if piece is None:
            piece = state.allocate(self._nbytes)
            pieces = [*pieces[-1:], piece]
        self._idle.append(pieces)
        return piece
