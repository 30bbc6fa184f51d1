"""How fast a GPU copies a matrix by groups that read or write its columns in short runs.

    python tools/column_copies.py [DEVICE]

The passes of a long transform make such copies, in addition to their arithmetic.
Each figure is the least of 5 turns of 30 copies of 2^24 complex64, over three pairs of buffers.
"""

from __future__ import annotations

import sys
import time

import pyopencl as cl

from portable_gpu import Engine

NUMBERS, COPIES, TURNS = 1 << 24, 30, 5
#: Columns of a group, numbers of a work-item, work-items of a group.
SHAPES = ((4, 16, 1024), (8, 16, 1024), (16, 16, 1024))


def text(columns: int, numbers: int, group: int, read: bool, written: bool) -> str:
    """A kernel whose groups read, or write, columns of a matrix; the other side is in order."""
    rows, step = group * numbers // columns, group // columns

    def place(across: bool, u: int) -> str:
        if across:
            return f"(long)(r + {u * step}) * {NUMBERS // rows} + first + c"
        return f"first * {rows} + id + {u * group}"

    loads = "\n".join(f"    v[{u}] = x[{place(read, u)}];" for u in range(numbers))
    stores = "\n".join(f"    y[{place(written, u)}] = v[{u}];" for u in range(numbers))
    return f"""
__kernel __attribute__((reqd_work_group_size({group}, 1, 1)))
void copy(__global const float2 *x, __global float2 *y)
{{
    const int id = get_local_id(0), c = id % {columns}, r = id / {columns};
    const long first = get_group_id(0) * {columns};
    float2 v[{numbers}];
{loads}
{stores}
}}
"""


def microseconds(
    engine: Engine, buffers: list[cl.Buffer], shape: tuple[int, int, int], way: tuple[bool, bool]
) -> float:
    """The time of a copy."""
    _, numbers, group = shape
    kernel = cl.Kernel(cl.Program(engine.context, text(*shape, *way)).build(), "copy")
    size = (NUMBERS // numbers,)
    best = float("inf")
    for turn in range(TURNS + 1):  # the first one warms up
        begin = time.perf_counter()
        for k in range(COPIES):
            x, y = buffers[2 * (k % 3) : 2 * (k % 3) + 2]
            kernel(engine.queue, size, (group,), x, y)
        engine.queue.finish()
        if turn:
            best = min(best, time.perf_counter() - begin)
    return best / COPIES * 1e6


def main() -> None:
    """Print a row for each length of a run."""
    engine = Engine(sys.argv[1] if len(sys.argv) > 1 else None)
    flags = cl.mem_flags.READ_WRITE
    buffers = [cl.Buffer(engine.context, flags, 8 * NUMBERS) for _ in range(6)]
    for buffer in buffers:
        cl.enqueue_fill_buffer(engine.queue, buffer, b"\0" * 8, 0, 8 * NUMBERS)
    print(f"{engine.device.name}: us, both in order / read, written, both in runs")
    for shape in SHAPES:
        columns, numbers, group = shape
        ways = ((False, False), (True, False), (False, True), (True, True))
        row = " / ".join(f"{microseconds(engine, buffers, shape, way):.1f}" for way in ways)
        print(f"runs of {8 * columns:3d} bytes, {group * numbers // columns} rows: {row}")


if __name__ == "__main__":
    main()
