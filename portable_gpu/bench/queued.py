"""Calls that are timed "in line": all are on an engine's queue before the first one starts."""

from __future__ import annotations

from collections.abc import Sequence

from portable_gpu.bench.timing import Call, Hold, OpenCLInLine
from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target


class Queued(OpenCLInLine):
    """Calls that enqueue their work on an engine's queue, timed as :class:`InLine` describes."""

    def __init__(self, engine: Engine, calls: Sequence[Call]) -> None:
        """Prepare ``calls``, which return device arrays, or results that are not read."""
        super().__init__(calls, engine.queue, lambda: hold_device(engine))


def hold_device(engine: Engine) -> Hold:
    """Return the kernel that keeps an engine's device busy until all calls are enqueued."""

    def make() -> Hold:
        return Hold(engine.programs.program(hold_spec(engine.target)), engine.queue)

    return engine.plan("hold the device", make)


def hold_spec(target: Target) -> Specialization:
    """Render the kernel that keeps a device busy."""
    parameters = [
        buffer("float", "out", writes=True),
        *scalars("float", "factor", "term"),
        *scalars("long", "rounds"),
    ]
    return specialize("bench/hold", target, {"hold": parameters})
