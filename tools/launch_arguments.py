"""The cost of a kernel's integers in a launch: host time, each by itself and all in one struct.

    python tools/launch_arguments.py [DEVICE]

Each figure is the least of 20 turns of 200 launches of a kernel that does nothing; on PoCL they
run on the calling thread.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pyopencl as cl

from portable_gpu import Engine
from portable_gpu.codegen.parameters import buffer, head, laid_out, scalars, with_structs
from portable_gpu.runtime.pocl import calling_thread_device

LAUNCHES, TURNS = 200, 20


def microseconds(engine: Engine, count: int, struct: bool) -> float:
    """A launch's time on the host, with ``count`` integers."""
    names = [f"a{k}" for k in range(count)]
    parameters = (buffer("long", "p", writes=True), *scalars("long", *names))
    declared = laid_out(parameters) if struct else parameters
    text = f"__kernel void {head('nothing', declared)}\n{{ if (!p) p[0] = 1; }}"
    text = with_structs(text, {"nothing": declared})
    kernel = cl.Kernel(cl.Program(engine.context, text).build(), "nothing")
    memory = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, 64)
    values = [np.zeros(count, np.int64)] if struct else [np.int64(0)] * count
    kernel.set_args(memory, *values)
    best = float("inf")
    for _ in range(TURNS):
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            cl.enqueue_nd_range_kernel(engine.queue, kernel, (1,), (1,))
        best = min(best, time.perf_counter() - begin)
        engine.queue.finish()
    return best / LAUNCHES * 1e6


def main() -> None:
    """Print a row for each number of integers."""
    engine = Engine(sys.argv[1] if len(sys.argv) > 1 else None)
    near = calling_thread_device(engine.device)
    if near is not None:
        context = cl.Context([near])
        engine = Engine(queue=cl.CommandQueue(context, near))
    print(f"{engine.device.name}: us a launch, integers by themselves / in a struct")
    for count in (2, 10, 25, 50, 100):
        item, other = (microseconds(engine, count, struct) for struct in (False, True))
        print(f"{count:4d}  {item:6.2f} / {other:.2f}")


if __name__ == "__main__":
    main()
