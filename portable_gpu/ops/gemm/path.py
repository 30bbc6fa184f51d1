"""What every way to compute a product has in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyopencl as cl

from portable_gpu.runtime.queue_state import QueueState


class GemmPath(Protocol):
    """A product bound to a problem, by one of the paths."""

    def enqueue(
        self,
        alpha: Any,
        beta: Any,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """Enqueue it; the event, if any, covers all its kernels: see :meth:`QueueState.event`."""
