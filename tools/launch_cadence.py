"""The cost of a launch: host time, and the time from one kernel to the next on the device.

    python tools/launch_cadence.py [DEVICE]

pyopencl asks for an event with every launch.  The second row launches the same kernel by OpenCL's
own function without one: the difference between the rows is the cost of events.  Each figure is the
median of 15 turns of 200 launches of a kernel that does nothing; for the device's own time all of
them are enqueued before the first one begins.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pyopencl as cl

from portable_gpu import Engine
from portable_gpu.bench.queued import Queued
from portable_gpu.runtime.events import enqueue_without_event

LAUNCHES, TURNS = 200, 15
SOURCE = "__kernel void nothing(__global int *p) { if (!p) p[0] = 1; }"


def without_event(queue: cl.CommandQueue, kernel: cl.Kernel) -> Callable[[], Any]:
    """The launch by :data:`enqueue_without_event`."""
    launch = enqueue_without_event
    if launch is None:
        raise RuntimeError("the OpenCL loader does not show its functions here")
    item = (ctypes.c_size_t * 1)(1)
    size = ctypes.addressof(item)

    def call() -> None:
        assert item[0] == 1
        status = launch(queue.int_ptr, kernel.int_ptr, 1, None, size, size, 0, None, None)
        if status:
            raise RuntimeError(f"clEnqueueNDRangeKernel returned {status}")

    return call


def main() -> None:
    """Print both rows."""
    engine = Engine(sys.argv[1] if len(sys.argv) > 1 else None)
    queue = engine.queue
    kernel = cl.Program(engine.context, SOURCE).build().nothing
    buffer = engine.allocate(64)  # the kernel does not keep it
    kernel.set_arg(0, buffer)
    rows = {
        "with an event": lambda: cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,)),
        "without": without_event(queue, kernel),
    }
    print(engine.target.facts.name)
    print(f"{'':14} {'host':>9} {'device':>9}  us a launch")
    for name, call in rows.items():
        queued, host = Queued(engine, [call]), []
        for _ in range(TURNS):
            begin = time.perf_counter()
            for _ in range(LAUNCHES):
                call()
            host.append(time.perf_counter() - begin)
            queue.finish()
        device = [queued.seconds(0, LAUNCHES) for _ in range(TURNS)]
        host_us, device_us = (median(result) / LAUNCHES * 1e6 for result in (host, device))
        print(f"{name:14} {host_us:9.2f} {device_us:9.2f}")


if __name__ == "__main__":
    main()
