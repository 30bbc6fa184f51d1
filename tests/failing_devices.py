"""Devices that fail on purpose: at an allocation, or at a copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyopencl as cl
import pytest

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState


@contextmanager
def failing(engine: Engine, what: str, at: int, *, lasts: bool) -> Iterator[list[int]]:
    """Let an allocation or a copy of a device fail, or all from that one on.

    Args:
        engine: The engine of the device.
        what: ``"allocations"`` or ``"copies"``.
        at: How many succeed before.
        lasts: Whether all later ones fail too.

    Yields:
        The number of those left before the one that fails; negative after it.
    """
    left = [at]

    def fails() -> bool:
        left[0] -= 1
        return left[0] == -1 or (lasts and left[0] < 0)

    def limited(allocate: Any, engine_of: Any) -> Any:
        def limited(self: Any, nbytes: int) -> Any:
            if engine_of(self) is engine and fails():
                raise DeviceMemoryError("an allocation fails on purpose")
            return allocate(self, nbytes)

        return limited

    def copy(queue: Any, *arguments: Any, **options: Any) -> Any:
        if queue.context == engine.context and fails():
            raise cl.RuntimeError("enqueue_copy failed: OUT_OF_RESOURCES")
        return enqueue_copy(queue, *arguments, **options)

    enqueue_copy = cl.enqueue_copy
    with pytest.MonkeyPatch.context() as patch:
        if what == "copies":
            patch.setattr(cl, "enqueue_copy", copy)
        else:
            patch.setattr(Engine, "allocate", limited(Engine.allocate, lambda self: self))
            patch.setattr(
                QueueState, "from_pool", limited(QueueState.from_pool, lambda self: self.engine)
            )
        yield left
