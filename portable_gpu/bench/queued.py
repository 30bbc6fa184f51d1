"""Calls that are timed in line on an engine's queue."""

from __future__ import annotations

from collections.abc import Sequence

from portable_gpu.bench.timing import Call, Hold, InLine
from portable_gpu.codegen.specialization import specialize
from portable_gpu.runtime.engine import Engine


class Queued(InLine):
    """Calls that enqueue their work on an engine's queue."""

    def __init__(self, engine: Engine, calls: Sequence[Call]) -> None:
        """``calls`` return device arrays, or results that are not read."""
        super().__init__(calls, engine.queue, lambda: hold_device(engine))


def hold_device(engine: Engine) -> Hold:
    """The kernel that keeps an engine's device busy."""

    def make() -> Hold:
        return Hold(engine.programs.program(specialize("bench/hold", engine.target)), engine.queue)

    return engine.plan("hold the device", make)
