"""Ladders: the steps that lead to a family's kernels, in the order in which the texts teach them.

A rung is a call with one idea more than the rung below it.  ``portable-gpu bench --ladder`` times
the rungs that the records of the families name (:mod:`portable_gpu.ops.family`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portable_gpu.runtime.engine import Engine
from portable_gpu.tuning.table import TuningTable

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


@dataclass(frozen=True)
class Rung:
    """One kernel of a ladder.

    Attributes:
        name: The idea by which it differs from the rung below.
        engine: The engine that runs it.
        bind: Makes a call of a case's operands, which are arrays on the device.
        takes: Whether it computes a case.
    """

    name: str
    engine: Engine
    bind: Callable[[Sequence[Any]], Callable[[], Any]]
    takes: Callable[[Case], bool] = lambda case: True


@dataclass(frozen=True)
class Ladder:
    """Kernels for one operation, from the plainest to the fastest; each adds an idea.

    Attributes:
        title: The title of the table.
        operation, dtype: The operation that all rungs compute, and its dtype.
        sizes: The sizes, as ``--sizes`` takes them.
        rungs: The kernels, the plainest first.
    """

    title: str
    operation: str
    dtype: str
    sizes: str
    rungs: Sequence[Rung]


def climbing_engine(engine: Engine, table: TuningTable | None = None) -> Engine:
    """An engine on the same queue whose device class has the rungs: ``generic`` for a CPU."""
    target = engine.target
    forced = "generic" if target.is_cpu else target.device_class if target.forced else None
    return Engine(queue=engine.queue, device_class=forced, table=table)
