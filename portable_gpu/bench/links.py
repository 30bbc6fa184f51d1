"""The rates that bound calls on several devices: those of copies, and of products."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.bench.on_cores import in_threads, random_array
from portable_gpu.bench.timing import Prepared, calls_a_turn, warm_up
from portable_gpu.host_memory import available
from portable_gpu.ops.gemm import gemm
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray

#: Bytes of a pinned copy, and the number of copies that stand in line on each device.
_PINNED, _COPIES = 64 << 20, 16
#: Bytes that the host copies for CPUs; for other devices it copies more, so that the start of its
#: threads does not count.
_HOST, _MORE = 1 << 29, 8
_TURNS = 3
_FLAGS = cl.mem_flags


def pinned_rates(engines: Sequence[Engine]) -> tuple[float, float]:
    """Return the bytes in a second that each device receives, and sends, while all of them do.

    The copies are of pinned memory.  Of devices that compute in the host's memory the rates are
    infinite, because nothing is copied.
    """
    if all(engine.maps_host_memory for engine in engines):
        return float("inf"), float("inf")
    pairs: list[tuple[Any, Any, Any]] = [_pinned(engine) for engine in engines]

    def copy(to_device: bool) -> float:
        begin = time.perf_counter()
        events = []  # pyopencl waits for a copy whose event is dropped
        for _ in range(_COPIES):
            for queue, device, host in pairs:
                target, source = (device, host) if to_device else (host, device)
                events.append(cl.enqueue_copy(queue, target, source, is_blocking=False))
                queue.flush()
        for queue, *_ in pairs:
            queue.finish()
        return _COPIES * _PINNED / (time.perf_counter() - begin)

    up, down = (max(copy(to_device) for _ in range(1 + _TURNS)) for to_device in (True, False))
    return up, down


def _pinned(engine: Engine) -> tuple[cl.CommandQueue, cl.Buffer, Any]:
    queue = cl.CommandQueue(engine.context, engine.device)
    device = cl.Buffer(engine.context, _FLAGS.READ_WRITE, _PINNED)
    host = cl.Buffer(engine.context, _FLAGS.READ_WRITE | _FLAGS.ALLOC_HOST_PTR, _PINNED)
    both: Any = cl.map_flags.READ | cl.map_flags.WRITE
    memory, _ = cl.enqueue_map_buffer(queue, host, both, 0, (_PINNED,), np.dtype(np.uint8))
    return queue, device, memory


def host_rate(is_link: bool) -> float:
    """Return the bytes in a second that all cores copy from memory to memory.

    Args:
        is_link: Whether calls copy between the host and devices with memory of their own.
    """
    nbytes = _HOST * _MORE if is_link else _HOST
    nbytes = min(nbytes, (available() or nbytes) // 16)
    source, target = np.empty(nbytes, np.uint8), np.empty(nbytes, np.uint8)
    for array in (source, target):
        in_threads(lambda part: part.fill(1), array)

    def seconds() -> float:
        begin = time.perf_counter()
        in_threads(np.copyto, target, source)
        return time.perf_counter() - begin

    return nbytes / min(seconds() for _ in range(_TURNS))


def product_rate(engine: Engine, size: int, dtype: np.dtype[Any]) -> float:
    """Return the operations in a second of a product of matrices on one device."""
    a, b = (asarray(random_array((size, size), k, dtype), engine=engine) for k in range(2))
    prepared = Prepared([lambda: gemm(a, b, engine=engine)], engine.queue.finish)
    calls = calls_a_turn(warm_up(prepared))
    return 2.0 * size**3 * calls / min(prepared.seconds(0, calls) for _ in range(_TURNS))
