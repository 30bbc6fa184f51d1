"""Calls on groups of one device and more, beside the same call on one engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from portable_gpu.bench.measure import alternate, ratios
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import Prepared, calls_a_turn, warm_up
from portable_gpu.errors import PortableGPUError
from portable_gpu.multi import DeviceGroup, GroupArray, streaming
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.gemm import gemm
from portable_gpu.ops.reduce import sum as total
from portable_gpu.runtime.transfer import asarray

#: The calls, given matrices, or blocks and a copy of them, and the engine or the group.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda x, _, engine: total(x, engine=engine),
    "elementwise": lambda x, _, engine: elementwise("x * x + 1", x=x, engine=engine),
    "gemm": lambda x, y, engine: gemm(x, y, engine=engine),
    "streamed gemm": lambda x, y, engine: streaming.gemm(
        x, y, memory_limit=max(_LEAST_LIMIT, (x.nbytes + y.nbytes) // 3), engine=engine
    ),
}
#: The calls that are timed, and whether on NumPy's matrices.
_TIMED = (
    ("sum", False), ("elementwise", False), ("gemm", False), ("gemm", True),
    ("streamed gemm", True),
)  # fmt: skip
#: The limit of memory of streamed calls is a third of the operands, or these bytes.
_LEAST_LIMIT = 1 << 17


@dataclass(frozen=True)
class MultiRow:
    """A call on a group.

    Attributes:
        operation: One of :data:`CALLS`.
        size: The rows and columns of its matrices of float32.
        numpy: Whether they are NumPy's, and not on the devices.
        devices: The number of devices.
        seconds: The time of a call, until its values exist.
        alone: That of the same call with ``engine=`` one of the devices.
        efficiency: ``alone / (devices * seconds)``, turn by turn.
        host_seconds: CPU seconds of the calling process for a block, device threads included.
        overlap: The part of the shorter of kernels and copies that ran at the time of the other.
    """

    operation: str
    size: int
    numpy: bool
    devices: int
    seconds: Statistic
    alone: Statistic
    efficiency: Statistic
    host_seconds: float
    overlap: float


def multi_rows(group: DeviceGroup, sizes: Sequence[int], turns: int) -> Iterator[MultiRow]:
    """Time each call on the group's first device, on two, and on all.

    Raises:
        PortableGPUError: A group's result has other bits than that of its first device.
    """
    counts = sorted({1, min(2, group.size), group.size})
    devices = [engine.device for engine in group.engines]
    for size in sizes:
        random = np.random.default_rng(size)
        x, y = (random.standard_normal((size, size)).astype(np.float32) for _ in range(2))
        for operation, numpy in _TIMED:
            bits = None
            for count in counts:
                with DeviceGroup(devices[:count]) as some:
                    row, result = _row(some, operation, numpy, x, y, turns)
                if bits is not None and result.tobytes() != bits:
                    raise PortableGPUError(
                        f"{operation} of {size} on {count} devices has other bits than on one"
                    )
                bits = result.tobytes()
                yield row


def _row(
    group: DeviceGroup, operation: str, numpy: bool, x: Any, y: Any, turns: int
) -> tuple[MultiRow, Any]:
    call, engine = CALLS[operation], group.engines[0]
    left, right = (x, y) if numpy else (group.asarray(x), group.broadcast(y))
    on_one = (x, y) if numpy else (asarray(x, engine=engine), asarray(y, engine=engine))
    sides = [
        Prepared([partial(call, left, right, group)], partial(_finish, group)),
        Prepared([partial(call, on_one[0], on_one[1], engine)], engine.queue.finish),
    ]
    calls = [calls_a_turn(warm_up(side)) for side in sides]
    times = alternate(sides, calls, turns)
    begin = time.process_time()
    result = call(left, right, group)
    _finish(group)
    host = time.process_time() - begin
    with group.timeline() as timeline:
        call(left, right, group)
    blocks = len(left.blocks) if isinstance(left, GroupArray) else 1
    row = MultiRow(
        operation, len(x), numpy, group.size, Statistic.of(times[0]), Statistic.of(times[1]),
        Statistic.of([ratio / group.size for ratio in ratios(*times)]), host / blocks,
        min(timeline.overlap(device) for device in range(group.size)),
    )  # fmt: skip
    return row, result.asnumpy() if isinstance(result, GroupArray) else np.asarray(result)


def _finish(group: DeviceGroup) -> None:
    for member in group.members:
        member.finish()
